#include <cmath>

#include "base/random_normal.h"
#include "device/cuda/clear_memory.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

template <typename T>
struct FillBody {
  T* to;
  T value;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[first + i] = value;
    }
  }
};

template <typename To, typename From>
struct CopyBody {
  To* to;
  const From* from;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
    Load(values, from + first);
    Store(to + first, values);
  }
};

template <typename To, typename From>
struct AddBody {
  To* to;
  const From* from;
  float factor;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float sums[kCount];
    float values[kCount];
    Load(sums, to + first);
    Load(values, from + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums[i] += factor * values[i];
    }
    Store(to + first, sums);
  }
};

template <typename T>
struct ScaleBody {
  T* t;
  float factor;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
    Load(values, t + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] *= factor;
    }
    Store(t + first, values);
  }
};

template <typename T>
struct DropoutBody {
  T* out;
  const T* in;
  Dropout dropout;
  float kept_factor;
  const std::int32_t* tokens;  // null: rows are in order
  std::int64_t columns;
  __device__ std::int64_t Position(std::int64_t at) const {
    const std::int64_t element = tokens == nullptr ? at : tokens[at / columns] * columns + at % columns;
    return dropout.first_element + element;
  }
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
    Load(values, in + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const auto position = static_cast<std::uint64_t>(Position(first + i));
      const bool dropped = RandomUniform(dropout.key, position) < dropout.probability;
      values[i] = dropped ? 0.0F : values[i] * kept_factor;
    }
    Store(out + first, values);
  }
};

struct NormalBody {
  float* to;
  std::int64_t columns;
  NormalDraw draw;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t row = (first + i) / columns;
      const std::int64_t position = draw.first_element + row * draw.stride + (first + i - row * columns);
      values[i] = draw.deviation * RandomNormal(draw.key, static_cast<std::uint64_t>(position));
    }
    Store(to + first, values);
  }
};

}  // namespace

void CudaOps::DoFill(const Tensor& t, float value) {
  if (t.count() == 0) {
    return;
  }
  if (value == 0) {
    ClearMemory(context_, t.data, t.bytes());
    return;
  }
  if (t.dtype == DType::kInt32) {
    const auto whole = static_cast<std::int32_t>(value);
    ForEach(context_, t.count(), false, FillBody<std::int32_t>{t.as<std::int32_t>(), whole});
    return;
  }
  DispatchFloat(t.dtype, "Fill", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (sizeof(T) == sizeof(float)) {
      ForEach(context_, t.count(), false, FillBody<float>{t.as<float>(), value});
    } else {
      const T narrow = [&] {
        if constexpr (std::is_same_v<T, Half>) {
          return __float2half_rn(value);
        } else {
          return __float2bfloat16_rn(value);
        }
      }();
      ForEach(context_, t.count(), false, FillBody<T>{t.as<T>(), narrow});
    }
  });
}

void CudaOps::DoCopy(const Tensor& to, const Tensor& from) {
  if (to.count() == 0) {
    return;
  }
  if (to.dtype == from.dtype) {
    if (to.data != from.data) {
      CheckCuda(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(to.bytes()), cudaMemcpyDefault,
                                context_.stream()),
                "copy a tensor");
    }
    return;
  }
  const bool wide = Aligned16({to.data, from.data});
  DispatchFloat(to.dtype, "Copy", [&](auto to_tag) {
    DispatchFloat(from.dtype, "Copy", [&](auto from_tag) {
      using To = typename decltype(to_tag)::Type;
      using From = typename decltype(from_tag)::Type;
      ForEach(context_, to.count(), wide, CopyBody<To, From>{to.as<To>(), from.as<From>()});
    });
  });
}

void CudaOps::DoCopyBlocks(const BlockCopy& copy) {
  const std::int64_t element = SizeOf(copy.to.dtype);
  const auto bytes = [element](std::int64_t count) { return static_cast<std::size_t>(count * element); };
  CheckCuda(cudaMemcpy2DAsync(copy.to.data, bytes(copy.to_stride), copy.from.data, bytes(copy.from_stride),
                              bytes(copy.columns), static_cast<std::size_t>(copy.rows), cudaMemcpyDeviceToDevice,
                              context_.stream()),
            "copy blocks");
}

void CudaOps::DoAdd(const Tensor& to, const Tensor& from, float factor) {
  const bool wide = Aligned16({to.data, from.data});
  DispatchFloat(to.dtype, "Add", [&](auto to_tag) {
    DispatchFloat(from.dtype, "Add", [&](auto from_tag) {
      using To = typename decltype(to_tag)::Type;
      using From = typename decltype(from_tag)::Type;
      ForEach(context_, to.count(), wide, AddBody<To, From>{to.as<To>(), from.as<From>(), factor});
    });
  });
}

void CudaOps::DoScale(const Tensor& t, float factor) {
  DispatchFloat(t.dtype, "Scale", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForEach(context_, t.count(), Aligned16({t.data}), ScaleBody<T>{t.as<T>(), factor});
  });
}

void CudaOps::DoDrawNormal(const Tensor& to, const NormalDraw& draw) {
  ForEach(context_, to.count(), Aligned16({to.data}), NormalBody{to.as<float>(), to.shape[1], draw});
}

void CudaOps::DoApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout) {
  if (dropout.probability <= 0) {
    return DoCopy(out, in);
  }
  DispatchFloat(out.dtype, "ApplyDropout", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const DropoutBody<T> body{out.as<T>(),
                              in.as<T>(),
                              dropout,
                              1.0F / (1.0F - dropout.probability),
                              dropout.tokens.as<std::int32_t>(),
                              out.shape[out.shape.rank() - 1]};
    ForEach(context_, out.count(), Aligned16({out.data, in.data}), body);
  });
}

}  // namespace trireme
