#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/activation.cc"
#include <hwy/foreach_target.h>

#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

template <typename T>
void GeluForward(const T* z, T* out, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = Narrow<T>(Gelu(static_cast<float>(z[i])));
  }
}

// grad_z may be z: element i is read before it is written.
template <typename T>
void GeluBackward(const T* grad, const T* z, T* grad_z, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    grad_z[i] = Narrow<T>(static_cast<float>(grad[i]) * GeluGradient(static_cast<float>(z[i])));
  }
}

template <typename T>
void SwiGluForwardRow(const T* z, T* out, std::int64_t width) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    const float gate = static_cast<float>(z[i]);
    out[i] = Narrow<T>(gate * Sigmoid(gate) * static_cast<float>(z[width + i]));
  }
}

template <typename T>
void SwiGluBackwardRow(const T* grad, const T* z, T* grad_z, std::int64_t width) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    const float gate = static_cast<float>(z[i]);
    const float up = static_cast<float>(z[width + i]);
    const float g = static_cast<float>(grad[i]);
    const float s = Sigmoid(gate);
    grad_z[i] = Narrow<T>(g * up * s * (1.0F + gate * (1.0F - s)));
    grad_z[width + i] = Narrow<T>(g * gate * s);
  }
}

}  // namespace

void CpuOps::DoActivationForward(ActivationKind kind, const Tensor& z, const Tensor& out) {
  const std::int64_t width = out.shape[1];
  DispatchWorkingType(out.dtype, [&](auto type) {
    using T = decltype(type);
    const T* in = z.as<T>();
    T* to = out.as<T>();
    if (kind == ActivationKind::kGelu) {
      ParallelRanges(threads_, out.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
        GeluForward(in + begin, to + begin, end - begin);
      });
      return;
    }
    ParallelRanges(threads_, out.shape[0], RowGrain(width), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        SwiGluForwardRow(in + 2 * row * width, to + row * width, width);
      }
    });
  });
}

void CpuOps::DoActivationBackward(ActivationKind kind, const Tensor& grad_out, const Tensor& z, const Tensor& grad_z) {
  const std::int64_t width = grad_out.shape[1];
  DispatchWorkingType(grad_out.dtype, [&](auto type) {
    using T = decltype(type);
    const T* grad = grad_out.as<T>();
    const T* in = z.as<T>();
    T* to = grad_z.as<T>();
    if (kind == ActivationKind::kGelu) {
      ParallelRanges(threads_, grad_out.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
        GeluBackward(grad + begin, in + begin, to + begin, end - begin);
      });
      return;
    }
    ParallelRanges(threads_, grad_out.shape[0], RowGrain(width), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        SwiGluBackwardRow(grad + row * width, in + 2 * row * width, to + 2 * row * width, width);
      }
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
