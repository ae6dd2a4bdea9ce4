#include "base/error.h"
#include "device/ops.h"
#include "ops/checks.h"

namespace trireme {
namespace {

struct MatmulSizes {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

// The type that bias and c go by: the operands' own, or bf16 for operands in fp8.
DType CheckOperandTypes(const MatmulArgs& args) {
  if (!IsFloat8(args.a.dtype)) {
    RequireWorkingType({"Matmul", "a", args.a});
    RequireType({"Matmul", "b", args.b}, args.a.dtype);
    return args.a.dtype;
  }
  Require(IsFloat8(args.b.dtype) && !(args.a.dtype == DType::kFloat8E5M2 && args.b.dtype == DType::kFloat8E5M2),
          "Matmul: a is {} and b is {}; with an fp8 operand the other is fp8 too, and at most one is e5m2",
          Name(args.a.dtype), Name(args.b.dtype));
  Require(!args.transpose_a && args.transpose_b, "Matmul: in fp8 b is transposed and a is not");
  RequireVector({"Matmul", "scale_a", args.scale_a}, 1, DType::kFloat32);
  RequireVector({"Matmul", "scale_b", args.scale_b}, 1, DType::kFloat32);
  Require(
      args.a.shape[0] % kFloat8Unit == 0 && args.a.shape[1] % kFloat8Unit == 0 && args.b.shape[0] % kFloat8Unit == 0,
      "Matmul: in fp8 all extents are multiples of {}, not those of a {} and b {}", kFloat8Unit,
      args.a.shape.ToString(), args.b.shape.ToString());
  return DType::kBFloat16;
}

MatmulSizes CheckMatmul(const MatmulArgs& args) {
  RequireMatrix({"Matmul", "a", args.a});
  RequireMatrix({"Matmul", "b", args.b});
  const DType operand = CheckOperandTypes(args);
  const MatmulSizes sizes{args.a.shape[args.transpose_a ? 1 : 0], args.b.shape[args.transpose_b ? 0 : 1],
                          args.a.shape[args.transpose_a ? 0 : 1]};
  const std::int64_t b_depth = args.b.shape[args.transpose_b ? 1 : 0];
  if (sizes.k != b_depth) {
    Fail("Matmul: the inner dims differ: a {}{} has {}, b {}{} has {}", args.a.shape.ToString(),
         args.transpose_a ? " transposed" : "", sizes.k, args.b.shape.ToString(), args.transpose_b ? " transposed" : "",
         b_depth);
  }
  RequireShape({"Matmul", "c", args.c}, {sizes.m, sizes.n});
  if (args.c.dtype != DType::kFloat32) {
    RequireType({"Matmul", "c", args.c}, operand);
  }
  if (args.bias.given()) {
    RequireVector({"Matmul", "bias", args.bias}, sizes.n, operand);
  }
  Require(!args.accumulate || (!args.bias.given() && args.epilogue == Epilogue::kNone),
          "Matmul: accumulate excludes a bias and an epilogue");
  Require(args.epilogue != Epilogue::kGeluGradient || !args.bias.given(), "Matmul: the gelu gradient excludes a bias");
  if (args.epilogue != Epilogue::kNone) {
    RequireLike({"Matmul", "auxiliary", args.auxiliary}, args.c.shape, args.c.dtype);
  }
  RequireLargest("Matmul", args.largest);
  Require(!args.largest.given() || (args.epilogue == Epilogue::kGeluGradient && IsFloat8(args.a.dtype)),
          "Matmul: magnitudes are noted with fp8 operands and the gelu gradient alone");
  return sizes;
}

}  // namespace

void Ops::Matmul(const MatmulArgs& args) {
  const MatmulSizes sizes = CheckMatmul(args);
  Count(2 * sizes.m * sizes.n * sizes.k, 0);
  if (sizes.m == 0 || sizes.n == 0) {
    return;
  }
  if (sizes.k == 0) {
    Require(!args.bias.given() && args.epilogue == Epilogue::kNone, "Matmul: an empty sum with a bias or an epilogue");
    if (!args.accumulate) {
      DoFill(args.c, 0);
    }
    return;
  }
  DoMatmul(args);
}

void Ops::GroupedMatmul(const GroupedMatmulArgs& args) {
  Check(args);
  const Shape& matrices = MatricesOf(args).shape;
  Count(2 * args.a.shape[0] * matrices[1] * matrices[2], 0);
  if (matrices.count() != 0 && (args.a.count() != 0 || args.product == GroupedProduct::kWeightGradient)) {
    DoGroupedMatmul(args);
  }
}

// Other shapes in every call: nothing is measured for one of them.
void Ops::MultiplyEachGroup(const GroupedMatmulArgs& args, const std::int32_t* offsets) {
  const Tensor& matrices = MatricesOf(args);
  const Shape matrix{matrices.shape[1], matrices.shape[2]};
  for (std::int64_t expert = 0; expert < matrices.shape[0]; ++expert) {
    const std::int64_t first = offsets[expert];
    const std::int64_t rows = offsets[expert + 1] - first;
    const Tensor own = matrices.Rows(expert, 1).Reshaped(matrix);
    if (args.product == GroupedProduct::kWeightGradient) {
      if (rows > 0) {
        DoMatmul({.a = args.a.Rows(first, rows),
                  .b = args.b.Rows(first, rows),
                  .c = own,
                  .transpose_a = true,
                  .accumulate = args.accumulate,
                  .equal_on_ranks = true});
      } else if (!args.accumulate) {
        DoFill(own, 0);
      }
    } else if (rows > 0) {
      DoMatmul({.a = args.a.Rows(first, rows),
                .b = own,
                .c = args.c.Rows(first, rows),
                .transpose_b = args.product == GroupedProduct::kForward,
                .equal_on_ranks = true,
                .weight_version = args.weight_version});
    }
  }
}

void Ops::Quantize(const QuantizeArgs& args) {
  RequireMatrix({"Quantize", "from", args.from});
  RequireWorkingType({"Quantize", "from", args.from});
  RequireVector({"Quantize", "scale", args.scale}, 1, DType::kFloat32);
  Require(args.rows.given() || args.columns.given(), "Quantize: neither rows nor columns");
  const std::int64_t rows = args.from.shape[0];
  const std::int64_t columns = args.from.shape[1];
  const DType format = args.rows.given() ? args.rows.dtype : args.columns.dtype;
  Require(IsFloat8(format), "Quantize: the format is {}, expected e4m3 or e5m2", Name(format));
  if (args.rows.given()) {
    RequireShape({"Quantize", "rows", args.rows}, {rows, columns});
  }
  if (args.columns.given()) {
    RequireLike({"Quantize", "columns", args.columns}, {columns, rows}, format);
  }
  RequireLargest("Quantize", args.largest);
  if (args.guess.given()) {
    RequireVector({"Quantize", "guess", args.guess}, 1, DType::kFloat32);
  }
  if (args.column_sums.given()) {
    RequireVector({"Quantize", "column_sums", args.column_sums}, columns, DType::kFloat32);
  }
  DoQuantize(args);
}

void Ops::BiasGradient(const Tensor& grad_out, const Tensor& grad_bias) {
  RequireMatrix({"BiasGradient", "grad_out", grad_out});
  RequireWorkingType({"BiasGradient", "grad_out", grad_out});
  RequireVector({"BiasGradient", "grad_bias", grad_bias}, grad_out.shape[1], DType::kFloat32);
  if (grad_out.count() != 0) {
    DoBiasGradient(grad_out, grad_bias);
  }
}

}  // namespace trireme
