#include "comm/member_reduce.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

template <typename Integer>
void Accumulate(Integer* sum, const Integer* values, std::int64_t count, ReduceOp op) {
  for (std::int64_t i = 0; i < count; ++i) {
    sum[i] = op == ReduceOp::kSum ? sum[i] + values[i] : std::max(sum[i], values[i]);
  }
}

template <typename Integer>
void ReduceIntegers(Device& device, const Tensor& to, std::span<const void* const> sources, ReduceOp op) {
  std::vector<Integer> sum(static_cast<std::size_t>(to.count()));
  std::vector<Integer> values(sum.size());
  device.CopyToHost(sum.data(), sources.front(), to.bytes());
  for (const void* source : sources.subspan(1)) {
    device.CopyToHost(values.data(), source, to.bytes());
    Accumulate(sum.data(), values.data(), to.count(), op);
  }
  device.CopyFromHost(to.data, sum.data(), to.bytes());
}

}  // namespace

void ReduceMembers(Device& device, const Tensor& to, std::span<const void* const> sources, ReduceOp op) {
  if (to.count() == 0) {
    return;
  }
  switch (to.dtype) {
    case DType::kInt32:
      return ReduceIntegers<std::int32_t>(device, to, sources, op);
    case DType::kInt64:
      return ReduceIntegers<std::int64_t>(device, to, sources, op);
    case DType::kFloat32:
    case DType::kBFloat16:
    case DType::kFloat16:
      return device.ops().Reduce(to, sources, op == ReduceOp::kMax);
    case DType::kUInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
    case DType::kUInt16:
      Fail("cannot reduce {} elements: known are fp32, bf16, fp16, int32 and int64", Name(to.dtype));
  }
}

}  // namespace trireme
