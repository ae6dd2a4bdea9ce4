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

// Functions of one number with their derivatives. Gated ones multiply the value of the gate with `up`.
struct GeluFunction {
  static float Value(float z) { return Gelu(z); }
  static float Slope(float z) { return GeluGradient(z); }
};
struct ExactGeluFunction {
  static float Value(float z) { return ExactGelu(z); }
  static float Slope(float z) { return ExactGeluGradient(z); }
};
struct ReluFunction {
  static float Value(float z) { return z > 0 ? z : 0.0F; }
  static float Slope(float z) { return z > 0 ? 1.0F : 0.0F; }
};
struct SquaredReluFunction {
  static float Value(float z) { return z > 0 ? z * z : 0.0F; }
  static float Slope(float z) { return z > 0 ? 2.0F * z : 0.0F; }
};
struct SiluFunction {
  static float Value(float z) { return z * Sigmoid(z); }
  static float Slope(float z) {
    const float s = Sigmoid(z);
    return s * (1.0F + z * (1.0F - s));
  }
};

template <typename Function, typename T>
void Forward(const T* z, T* out, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = Narrow<T>(Function::Value(static_cast<float>(z[i])));
  }
}

// grad_z may be z: element i is read before it is written.
template <typename Function, typename T>
void Backward(const T* grad, const T* z, T* grad_z, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    grad_z[i] = Narrow<T>(static_cast<float>(grad[i]) * Function::Slope(static_cast<float>(z[i])));
  }
}

template <typename Function, typename T>
void GatedForwardRow(const T* z, T* out, std::int64_t width) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    out[i] = Narrow<T>(Function::Value(static_cast<float>(z[i])) * static_cast<float>(z[width + i]));
  }
}

template <typename Function, typename T>
void GatedBackwardRow(const T* grad, const T* z, T* grad_z, std::int64_t width) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    const float gate = static_cast<float>(z[i]);
    const float up = static_cast<float>(z[width + i]);
    const float g = static_cast<float>(grad[i]);
    grad_z[i] = Narrow<T>(g * up * Function::Slope(gate));
    grad_z[width + i] = Narrow<T>(g * Function::Value(gate));
  }
}

template <typename Function, typename T>
void WeightedForwardRow(const T* z, float weight, T* out, std::int64_t width) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    out[i] = Narrow<T>(Function::Value(static_cast<float>(z[i])) * static_cast<float>(z[width + i]) * weight);
  }
}

// Returns the gradient of the weight. grad_z may be z.
template <typename Function, typename T>
float WeightedBackwardRow(const T* grad, const T* z, float weight, T* grad_z, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) {
    const float gate = static_cast<float>(z[i]);
    const float up = static_cast<float>(z[width + i]);
    const float value = Function::Value(gate);
    const float g = static_cast<float>(grad[i]) * weight;
    sum += static_cast<float>(grad[i]) * (value * up);
    grad_z[i] = Narrow<T>(g * up * Function::Slope(gate));
    grad_z[width + i] = Narrow<T>(g * value);
  }
  return sum;
}

// Calls run(function) with the function of a kind.
template <typename Run>
void WithFunction(ActivationKind kind, const Run& run) {
  switch (kind) {
    case ActivationKind::kGelu:
    case ActivationKind::kGeGlu:
      return run(GeluFunction{});
    case ActivationKind::kExactGelu:
    case ActivationKind::kExactGeGlu:
      return run(ExactGeluFunction{});
    case ActivationKind::kRelu:
    case ActivationKind::kReGlu:
      return run(ReluFunction{});
    case ActivationKind::kSquaredRelu:
      return run(SquaredReluFunction{});
    case ActivationKind::kSwiGlu:
    case ActivationKind::kSilu:
      return run(SiluFunction{});
  }
}

}  // namespace

void CpuOps::Do(const ActivationForward<Tensor>& op) {
  const std::int64_t width = op.to.shape[1];
  DispatchWorkingType(op.to.dtype, [&](auto type) {
    using T = decltype(type);
    const T* in = op.from.as<T>();
    T* to = op.to.as<T>();
    WithFunction(op.kind, [&](auto function) {
      using Function = decltype(function);
      if (!IsGated(op.kind)) {
        ParallelRanges(threads_, op.to.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
          Forward<Function>(in + begin, to + begin, end - begin);
        });
        return;
      }
      ParallelRanges(threads_, op.to.shape[0], RowGrain(width), [&](int, std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          GatedForwardRow<Function>(in + 2 * row * width, to + row * width, width);
        }
      });
    });
  });
}

void CpuOps::Do(const ActivationBackward<Tensor>& op) {
  const std::int64_t width = op.grad_out.shape[1];
  DispatchWorkingType(op.grad_out.dtype, [&](auto type) {
    using T = decltype(type);
    const T* grad = op.grad_out.as<T>();
    const T* in = op.from.as<T>();
    T* to = op.grad_from.as<T>();
    WithFunction(op.kind, [&](auto function) {
      using Function = decltype(function);
      if (!IsGated(op.kind)) {
        ParallelRanges(threads_, op.grad_out.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
          Backward<Function>(grad + begin, in + begin, to + begin, end - begin);
        });
        return;
      }
      ParallelRanges(threads_, op.grad_out.shape[0], RowGrain(width), [&](int, std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          GatedBackwardRow<Function>(grad + row * width, in + 2 * row * width, to + 2 * row * width, width);
        }
      });
    });
  });
}

void CpuOps::Do(const WeightedActivation<Tensor>& op) {
  const std::int64_t width = op.to.shape[1];
  DispatchWorkingType(op.to.dtype, [&](auto type) {
    using T = decltype(type);
    WithFunction(op.kind, [&](auto function) {
      using Function = decltype(function);
      ParallelRanges(threads_, op.to.shape[0], RowGrain(width), [&](int, std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float weight = op.weights.as<float>()[op.order.as<std::int32_t>()[row]];
          WeightedForwardRow<Function>(op.from.as<T>() + 2 * row * width, weight, op.to.as<T>() + row * width, width);
        }
      });
    });
  });
}

void CpuOps::Do(const WeightedActivationBackward<Tensor>& op) {
  const std::int64_t width = op.grad_out.shape[1];
  DispatchWorkingType(op.grad_out.dtype, [&](auto type) {
    using T = decltype(type);
    WithFunction(op.kind, [&](auto function) {
      using Function = decltype(function);
      ParallelRanges(threads_, op.grad_out.shape[0], RowGrain(width), [&](int, std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int32_t slot = op.order.as<std::int32_t>()[row];
          op.grad_weights.as<float>()[slot] = WeightedBackwardRow<Function>(
              op.grad_out.as<T>() + row * width, op.from.as<T>() + 2 * row * width, op.weights.as<float>()[slot],
              op.grad_from.as<T>() + 2 * row * width, width);
        }
      });
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
