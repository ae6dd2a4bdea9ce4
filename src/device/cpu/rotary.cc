#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/rotary.cc"
#include <hwy/foreach_target.h>

#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

template <typename T>
void RotateHead(T* head, const float* cosines, const float* sines, std::int64_t half, float direction) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = static_cast<float>(head[i]);
    const float b = static_cast<float>(head[half + i]);
    const float sine = direction * sines[i];
    head[i] = Narrow<T>(a * cosines[i] - b * sine);
    head[half + i] = Narrow<T>(b * cosines[i] + a * sine);
  }
}

}  // namespace

void CpuOps::Do(const Rotary<Tensor>& op) {
  const std::int64_t half = op.pairs();
  const std::int64_t width = op.qkv.shape[1];
  const float direction = op.inverse ? -1.0F : 1.0F;
  const float* cosines = PrepareRotary(op);
  const float* sines = cosines + op.sequence * half;
  const std::int32_t* positions = op.positions.as<std::int32_t>();
  DispatchWorkingType(op.qkv.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, op.qkv.shape[0], RowGrain(width), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t offset = (positions == nullptr ? row : positions[row]) % op.sequence * half;
        T* first = op.qkv.as<T>() + row * width;
        for (std::int64_t head = 0; head < op.heads + op.kv_heads; ++head) {
          RotateHead(first + head * op.head_size, cosines + offset, sines + offset, half, direction);
        }
      }
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
