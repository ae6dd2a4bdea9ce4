#include <cmath>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr float kGeluSlope = 0.79788456080286535588F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

// tanh for results that are stored as T.
template <typename T>
__device__ float TanhFor(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return tanhf(value);
  } else {
    return 1.0F - __fdividef(2.0F, 1.0F + __expf(2.0F * value));
  }
}

template <typename T>
__device__ float Gelu(float z) {
  const float inner = kGeluSlope * (z + kGeluCubic * z * z * z);
  return 0.5F * z * (1.0F + TanhFor<T>(inner));
}

template <typename T>
__device__ float GeluSlope(float z) {
  const float tanh_inner = TanhFor<T>(kGeluSlope * (z + kGeluCubic * z * z * z));
  const float inner_slope = kGeluSlope * (1.0F + 3.0F * kGeluCubic * z * z);
  return 0.5F * (1.0F + tanh_inner) + 0.5F * z * (1.0F - tanh_inner * tanh_inner) * inner_slope;
}

// Functions of one number with their derivatives, for results that are stored as T.
template <typename T>
struct GeluFunction {
  __device__ static float Value(float z) { return Gelu<T>(z); }
  __device__ static float Slope(float z) { return GeluSlope<T>(z); }
};

template <typename T>
struct ExactGeluFunction {
  __device__ static float Distribution(float z) { return 0.5F * (1.0F + erff(z * 0.70710678F)); }
  __device__ static float Value(float z) { return z * Distribution(z); }
  __device__ static float Slope(float z) { return Distribution(z) + z * 0.39894228F * ExpFor<T>(-0.5F * z * z); }
};

template <typename T>
struct ReluFunction {
  __device__ static float Value(float z) { return fmaxf(z, 0.0F); }
  __device__ static float Slope(float z) { return z > 0 ? 1.0F : 0.0F; }
};

template <typename T>
struct SquaredReluFunction {
  __device__ static float Value(float z) { return z > 0 ? z * z : 0.0F; }
  __device__ static float Slope(float z) { return z > 0 ? 2.0F * z : 0.0F; }
};

template <typename T>
struct SiluFunction {
  __device__ static float Value(float z) { return z / (1.0F + ExpFor<T>(-z)); }
  __device__ static float Slope(float z) {
    const float sigmoid = 1.0F / (1.0F + ExpFor<T>(-z));
    return sigmoid + z * sigmoid * (1.0F - sigmoid);
  }
};

template <typename T, typename Function>
struct ForwardBody {
  const T* z;
  T* out;
  template <int kCount>
  __device__ unsigned Run(std::int64_t first) const {
    float values[kCount];
    Load(values, z + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = Function::Value(values[i]);
    }
    Store(out + first, values);
    return LargestOf<T>(values);
  }
};

template <typename T, typename Function>
struct BackwardBody {
  const T* grad_out;
  const T* z;
  T* grad_z;
  template <int kCount>
  __device__ unsigned Run(std::int64_t first) const {
    float values[kCount];
    float grads[kCount];
    Load(values, z + first);
    Load(grads, grad_out + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      grads[i] *= Function::Slope(values[i]);
    }
    Store(grad_z + first, grads);
    return LargestOf<T>(grads);
  }
};

// Indices run over the output [N, F]; z and its gradient are [N, 2F].
template <typename T, typename Function>
struct GatedForwardBody {
  const T* z;
  T* out;
  std::int64_t columns;
  template <int kCount>
  __device__ unsigned Run(std::int64_t first) const {
    const std::int64_t gate_at = first + first / columns * columns;
    float gate[kCount];
    float up[kCount];
    Load(gate, z + gate_at);
    Load(up, z + gate_at + columns);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      up[i] *= Function::Value(gate[i]);
    }
    Store(out + first, up);
    return LargestOf<T>(up);
  }
};

template <typename T, typename Function>
struct GatedBackwardBody {
  const T* grad_out;
  const T* z;
  T* grad_z;
  std::int64_t columns;
  template <int kCount>
  __device__ unsigned Run(std::int64_t first) const {
    const std::int64_t gate_at = first + first / columns * columns;
    float gate[kCount];
    float up[kCount];
    float grads[kCount];
    Load(gate, z + gate_at);
    Load(up, z + gate_at + columns);
    Load(grads, grad_out + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float grad_up = grads[i] * Function::Value(gate[i]);
      gate[i] = grads[i] * up[i] * Function::Slope(gate[i]);
      up[i] = grad_up;
    }
    Store(grad_z + gate_at, gate);
    Store(grad_z + gate_at + columns, up);
    return max(LargestOf<T>(gate), LargestOf<T>(up));
  }
};

// A block a row.
constexpr int kRowWarps = 4;

template <typename T, typename Function>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    WeightedForwardKernel(const T* z, const float* weights, const std::int32_t* order, T* out, std::int64_t width) {
  const auto row = static_cast<std::int64_t>(blockIdx.x);
  const float weight = weights[order[row]];
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const float gate = ToFloat(z[2 * row * width + i]);
    const float up = ToFloat(z[(2 * row + 1) * width + i]);
    out[row * width + i] = FromFloat<T>(Function::Value(gate) * up * weight);
  }
}

template <typename T, typename Function>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    WeightedBackwardKernel(const T* grad_out, const T* z, const float* weights, const std::int32_t* order, T* grad_z,
                           float* grad_weights, std::int64_t width) {
  __shared__ float shared[kRowWarps];
  const auto row = static_cast<std::int64_t>(blockIdx.x);
  const std::int32_t slot = order[row];
  const float weight = weights[slot];
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const float gate = ToFloat(z[2 * row * width + i]);
    const float up = ToFloat(z[(2 * row + 1) * width + i]);
    const float grad = ToFloat(grad_out[row * width + i]);
    const float value = Function::Value(gate);
    sum += grad * (value * up);
    grad_z[2 * row * width + i] = FromFloat<T>(grad * weight * up * Function::Slope(gate));
    grad_z[(2 * row + 1) * width + i] = FromFloat<T>(grad * weight * value);
  }
  sum = BlockSum<kRowWarps>(sum, shared);
  if (threadIdx.x == 0) {
    grad_weights[slot] = sum;
  }
}

// Calls run(TypeTag<function>) with the function of a kind.
template <typename T, typename Run>
void WithFunction(ActivationKind kind, const Run& run) {
  switch (kind) {
    case ActivationKind::kGelu:
    case ActivationKind::kGeGlu:
      return run(TypeTag<GeluFunction<T>>{});
    case ActivationKind::kExactGelu:
    case ActivationKind::kExactGeGlu:
      return run(TypeTag<ExactGeluFunction<T>>{});
    case ActivationKind::kRelu:
    case ActivationKind::kReGlu:
      return run(TypeTag<ReluFunction<T>>{});
    case ActivationKind::kSquaredRelu:
      return run(TypeTag<SquaredReluFunction<T>>{});
    case ActivationKind::kSwiGlu:
    case ActivationKind::kSilu:
      return run(TypeTag<SiluFunction<T>>{});
  }
}

template <typename C, typename Bias>
struct FinishBody {
  C* c;
  const Bias* bias;    // may be null
  const C* auxiliary;  // null, or what the gelu gradient is taken at, or what is added
  bool residual;
  std::int64_t columns;
  template <int kCount>
  __device__ unsigned Run(std::int64_t first) const {
    float values[kCount];
    Load(values, c + first);
    if (bias != nullptr) {
      float added[kCount];
      Load(added, bias + first % columns);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        values[i] += added[i];
      }
    }
    if (auxiliary != nullptr) {
      float z[kCount];
      Load(z, auxiliary + first);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        values[i] = residual ? values[i] + z[i] : values[i] * GeluSlope<C>(z[i]);
      }
    }
    Store(c + first, values);
    return LargestOf<C>(values);
  }
};

}  // namespace

void CudaOps::Do(const ActivationForward<Tensor>& op) {
  unsigned* const noted = ClearedLargest(context_, op.largest);
  const bool aligned = Aligned16({op.from.data, op.to.data});
  const std::int64_t columns = op.to.shape[op.to.shape.rank() - 1];
  DispatchFloat(op.to.dtype, "ActivationForward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithFunction<T>(op.kind, [&](auto function) {
      using Function = typename decltype(function)::Type;
      if (IsGated(op.kind)) {
        ForEachNoting(context_, op.to.count(), aligned && columns % 8 == 0,
                      GatedForwardBody<T, Function>{op.from.as<T>(), op.to.as<T>(), columns}, noted);
      } else {
        ForEachNoting(context_, op.to.count(), aligned, ForwardBody<T, Function>{op.from.as<T>(), op.to.as<T>()},
                      noted);
      }
    });
  });
}

void CudaOps::Do(const ActivationBackward<Tensor>& op) {
  unsigned* const noted = ClearedLargest(context_, op.largest);
  const bool aligned = Aligned16({op.grad_out.data, op.from.data, op.grad_from.data});
  const std::int64_t columns = op.grad_out.shape[op.grad_out.shape.rank() - 1];
  DispatchFloat(op.grad_out.dtype, "ActivationBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithFunction<T>(op.kind, [&](auto function) {
      using Function = typename decltype(function)::Type;
      if (IsGated(op.kind)) {
        ForEachNoting(
            context_, op.grad_out.count(), aligned && columns % 8 == 0,
            GatedBackwardBody<T, Function>{op.grad_out.as<T>(), op.from.as<T>(), op.grad_from.as<T>(), columns}, noted);
      } else {
        ForEachNoting(context_, op.grad_out.count(), aligned,
                      BackwardBody<T, Function>{op.grad_out.as<T>(), op.from.as<T>(), op.grad_from.as<T>()}, noted);
      }
    });
  });
}

void CudaOps::Do(const WeightedActivation<Tensor>& op) {
  DispatchFloat(op.to.dtype, "WeightedActivation", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithFunction<T>(op.kind, [&](auto function) {
      using Function = typename decltype(function)::Type;
      Launch(context_, {dim3(static_cast<unsigned>(op.to.shape[0])), dim3(kRowWarps * kWarp)},
             WeightedForwardKernel<T, Function>, op.from.as<T>(), op.weights.as<float>(), op.order.as<std::int32_t>(),
             op.to.as<T>(), op.to.shape[1]);
    });
  });
}

void CudaOps::Do(const WeightedActivationBackward<Tensor>& op) {
  DispatchFloat(op.grad_out.dtype, "WeightedActivationBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithFunction<T>(op.kind, [&](auto function) {
      using Function = typename decltype(function)::Type;
      Launch(context_, {dim3(static_cast<unsigned>(op.grad_out.shape[0])), dim3(kRowWarps * kWarp)},
             WeightedBackwardKernel<T, Function>, op.grad_out.as<T>(), op.from.as<T>(), op.weights.as<float>(),
             op.order.as<std::int32_t>(), op.grad_from.as<T>(), op.grad_weights.as<float>(), op.grad_out.shape[1]);
    });
  });
}

void FinishProduct(const CudaContext& context, const MatmulArgs& args) {
  if (!args.bias.given() && args.epilogue == Epilogue::kNone) {
    return;
  }
  unsigned* const noted = ClearedLargest(context, args.largest);
  const std::int64_t columns = args.c.shape[args.c.shape.rank() - 1];
  const bool wide = columns % 8 == 0 && Aligned16({args.c.data, args.bias.data, args.auxiliary.data});
  DispatchFloat(args.c.dtype, "Matmul", [&](auto c_tag) {
    DispatchFloat(args.bias.given() ? args.bias.dtype : args.c.dtype, "Matmul", [&](auto a_tag) {
      using C = typename decltype(c_tag)::Type;
      using Bias = typename decltype(a_tag)::Type;
      const FinishBody<C, Bias> body{args.c.as<C>(), args.bias.as<Bias>(), args.auxiliary.as<C>(),
                                     args.epilogue == Epilogue::kResidual, columns};
      ForEachNoting(context, args.c.count(), wide, body, noted);
    });
  });
}

}  // namespace trireme
