// fp8 on the host: real bits in memory, products in bf16, which holds every fp8 number times a power of two exactly.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/quantize.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/float8.h"
#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// Compares magnitudes by their bits, so that NaN counts as the largest.
template <typename T>
float LargestMagnitude(const Tensor& from) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < from.count(); ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(std::abs(static_cast<float>(from.as<T>()[i]))));
  }
  return std::bit_cast<float>(largest);
}

template <typename T>
void StoreRows(const QuantizeArgs& args, float inverse, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = args.from.shape[0];
  const std::int64_t columns = args.from.shape[1];
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const float value = static_cast<float>(args.from.as<T>()[row * columns + column]) * inverse;
      if (args.rows.given()) {
        args.rows.as<std::uint8_t>()[row * columns + column] = EncodeFloat8(value, args.rows.dtype);
      }
      if (args.columns.given()) {
        args.columns.as<std::uint8_t>()[column * rows + row] = EncodeFloat8(value, args.columns.dtype);
      }
    }
  }
}

Tensor Widened(const Tensor& from, const Tensor& scale, std::vector<BFloat16>& memory) {
  std::array<BFloat16, 256> values;
  for (int code = 0; code < 256; ++code) {
    values[static_cast<std::size_t>(code)] =
        BFloat16(DecodeFloat8(static_cast<std::uint8_t>(code), from.dtype) * *scale.as<float>());
  }
  memory.resize(static_cast<std::size_t>(from.count()));
  std::transform(from.as<std::uint8_t>(), from.as<std::uint8_t>() + from.count(), memory.begin(),
                 [&](std::uint8_t code) { return values[code]; });
  return {memory.data(), DType::kBFloat16, from.shape};
}

}  // namespace

void CpuOps::DoQuantize(const QuantizeArgs& args) {
  const DType format = args.rows.given() ? args.rows.dtype : args.columns.dtype;
  DispatchWorkingType(args.from.dtype, [&](auto type) {
    using T = decltype(type);
    const float scale = ScaleForFloat8(LargestMagnitude<T>(args.from), format);
    *args.scale.as<float>() = scale;
    ParallelRanges(threads_, args.from.shape[0], RowGrain(args.from.shape[1]),
                   [&](int, std::int64_t begin, std::int64_t end) { StoreRows<T>(args, 1.0F / scale, begin, end); });
  });
  if (args.guess.given()) {
    args.guess.as<float>()[0] = args.scale.as<float>()[0];
  }
  if (args.column_sums.given()) {
    DoBiasGradient(args.from, args.column_sums);
  }
}

void CpuOps::DoMatmul(const MatmulArgs& args) {
  if (!IsFloat8(args.a.dtype)) {
    matmul_->Run(args);
    return;
  }
  MatmulArgs wide = args;
  wide.a = Widened(args.a, args.scale_a, wide_a_);
  wide.b = Widened(args.b, args.scale_b, wide_b_);
  wide.scale_a = wide.scale_b = {};
  wide.weight_version = 0;  // b's memory serves every weight
  matmul_->Run(wide);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
