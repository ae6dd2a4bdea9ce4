#include "optim/newton_schulz.h"

#include <algorithm>
#include <cmath>

#include "lowering/memory_plan.h"

namespace trireme {
namespace {

// Coefficients of the quintic whose iterations carry every singular value to about 1 fastest (Jordan 2024).
constexpr float kLinear = 3.4445F;
constexpr float kCubic = -4.7750F;
constexpr float kQuintic = 2.0315F;
constexpr float kLeastNorm = 1e-7F;

}  // namespace

void NewtonSchulz(Device& device, const NewtonSchulzArgs& args) {
  Ops& ops = device.ops();
  const std::int64_t rows = args.matrix.shape[0];
  const std::int64_t columns = args.matrix.shape[1];
  const std::int64_t small = std::min(rows, columns);
  const bool wide = rows <= columns;
  std::int64_t used = 0;
  const auto take = [&](DType dtype, const Shape& shape) {
    const Tensor tensor{args.workspace.as<char>() + used, dtype, shape};
    used += RoundUp(tensor.bytes(), kPlanAlignment);
    return tensor;
  };
  const Tensor product = take(DType::kFloat32, {rows, columns});
  const Tensor sum = take(DType::kFloat32, {small, small});
  const Tensor x = take(args.dtype, {rows, columns});
  const Tensor gram = take(args.dtype, {small, small});

  ops.SumOfSquares({&args.matrix, 1}, args.sum);
  float square = 0;
  device.CopyToHost(&square, args.sum.data, sizeof square);
  ops.Scale(args.matrix, 1.0F / std::max(std::sqrt(square), kLeastNorm));
  ops.Copy(x, args.matrix);
  ops.set_updating(true);
  for (int i = 0; i < args.iterations; ++i) {
    ops.Matmul({.a = x, .b = x, .c = gram, .transpose_a = !wide, .transpose_b = wide, .equal_on_ranks = true});
    ops.Matmul({.a = gram, .b = gram, .c = sum, .equal_on_ranks = true});
    ops.Scale(sum, kQuintic);
    ops.Add(sum, gram, kCubic);
    ops.Copy(gram, sum);
    ops.Matmul({.a = wide ? gram : x, .b = wide ? x : gram, .c = product, .equal_on_ranks = true});
    ops.Add(product, x, kLinear);
    ops.Copy(x, product);
  }
  ops.set_updating(false);
  ops.Copy(args.matrix, product);
}

}  // namespace trireme
