// Device code that kernels share: wide loads and stores of fp32, bf16 and fp16 as floats, reductions within a warp and
// a block, and one loop over the elements of a tensor. Sums are taken in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/float8.h"
#include "base/shape.h"
#include "device/cuda/clear_memory.h"
#include "device/cuda/launch.cuh"
#include "ops/tensor.h"

namespace trireme {

using Bf16 = __nv_bfloat16;
using Half = __half;

inline constexpr int kWarp = 32;
// Elements of a 16-byte load.
template <typename T>
inline constexpr int kWidth = 16 / static_cast<int>(sizeof(T));

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(Bf16 value) { return __bfloat162float(value); }
__device__ inline float ToFloat(Half value) { return __half2float(value); }

template <typename T>
__device__ T FromFloat(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else if constexpr (std::is_same_v<T, Half>) {
    return __float2half_rn(value);
  } else {
    return __float2bfloat16_rn(value);
  }
}

// What a value becomes when it is stored as T and read again.
template <typename T>
__device__ float Rounded(float value) {
  return ToFloat(FromFloat<T>(value));
}

__device__ inline void Unpack(float* values, const uint4& raw, float /*type*/) {
  values[0] = __uint_as_float(raw.x);
  values[1] = __uint_as_float(raw.y);
  values[2] = __uint_as_float(raw.z);
  values[3] = __uint_as_float(raw.w);
}

__device__ inline void Unpack(float* values, const uint4& raw, Bf16 /*type*/) {
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
}

__device__ inline void Unpack(float* values, const uint4& raw, Half /*type*/) {
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] & 0xffffU)));
    values[2 * i + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
  }
}

__device__ inline uint4 Packed(const float* values, float /*type*/) {
  return make_uint4(__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
                    __float_as_uint(values[3]));
}

__device__ inline uint4 Packed(const float* values, Bf16 /*type*/) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned low = __bfloat16_as_ushort(__float2bfloat16_rn(values[2 * i]));
    const unsigned high = __bfloat16_as_ushort(__float2bfloat16_rn(values[2 * i + 1]));
    words[i] = low | (high << 16);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline uint4 Packed(const float* values, Half /*type*/) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned low = __half_as_ushort(__float2half_rn(values[2 * i]));
    const unsigned high = __half_as_ushort(__float2half_rn(values[2 * i + 1]));
    words[i] = low | (high << 16);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// kCount elements at `from`. When they are a multiple of 16 bytes, `from` must be aligned to 16.
template <int kCount, typename T>
__device__ void Load(float (&values)[kCount], const T* from) {
  if constexpr (kCount % kWidth<T> == 0) {
#pragma unroll
    for (int i = 0; i < kCount / kWidth<T>; ++i) {
      Unpack(values + i * kWidth<T>, reinterpret_cast<const uint4*>(from)[i], T{});
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = ToFloat(from[i]);
    }
  }
}

template <int kCount, typename T>
__device__ void Store(T* to, const float (&values)[kCount]) {
  if constexpr (kCount % kWidth<T> == 0) {
#pragma unroll
    for (int i = 0; i < kCount / kWidth<T>; ++i) {
      reinterpret_cast<uint4*>(to)[i] = Packed(values + i * kWidth<T>, T{});
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[i] = FromFloat<T>(values[i]);
    }
  }
}

// Elements [column, column + kCount) of a row of `columns`; those past its end are 0. kAligned: the row starts at a
// multiple of 16 bytes and `columns` is a multiple of kCount.
template <bool kAligned, int kCount, typename T>
__device__ void LoadColumns(float (&values)[kCount], const T* row, int column, int columns) {
  if constexpr (kAligned) {
    if (column < columns) {
      Load(values, row + column);
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = 0;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = column + i < columns ? ToFloat(row[column + i]) : 0.0F;
    }
  }
}

template <bool kAligned, int kCount, typename T>
__device__ void StoreColumns(T* row, int column, int columns, const float (&values)[kCount]) {
  if constexpr (kAligned) {
    if (column < columns) {
      Store(row + column, values);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (column + i < columns) {
        row[column + i] = FromFloat<T>(values[i]);
      }
    }
  }
}

template <typename Number>
__device__ Number WarpSum(Number value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

__device__ inline float WarpMax(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, offset));
  }
  return value;
}

// The sum over a block of kWarps warps, in every thread, always added in the same order. `shared` has room for kWarps
// numbers and may be used again at once. For kWarps = 1 the sum is over the warp and `shared` is not touched.
template <int kWarps, typename Number>
__device__ Number BlockSum(Number value, Number* shared) {
  value = WarpSum(value);
  if constexpr (kWarps > 1) {
    __syncthreads();
    if (threadIdx.x % kWarp == 0) {
      shared[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    value = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      value += shared[warp];
    }
  }
  return value;
}

// exp for results that are stored as T.
template <typename T>
__device__ float ExpFor(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return expf(value);
  } else {
    return __expf(value);
  }
}

// Magnitudes compare like their bits, and NaN is above all of them.
__device__ inline unsigned Magnitude(float value) { return __float_as_uint(fabsf(value)); }

// The largest magnitude of the first `count` values as they are stored in T. Rounding keeps their order: it is the
// largest that has to be rounded.
template <typename T, int kCount>
__device__ unsigned LargestOf(const float (&values)[kCount], int count = kCount) {
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    bits = i < count ? max(bits, Magnitude(values[i])) : bits;
  }
  return Magnitude(Rounded<T>(__uint_as_float(bits)));
}

// Notes the largest of all threads' `bits` in `largest`, which has kLargestSlots numbers. Every thread of a warp takes
// part.
__device__ inline void NoteLargest(unsigned* largest, unsigned bits) {
  bits = __reduce_max_sync(0xffffffffU, bits);
  if (threadIdx.x % kWarp == 0) {
    atomicMax(largest + blockIdx.x % kLargestSlots, bits);
  }
}

// Calls body.Run<kCount>(first) for consecutive pieces of [0, count), and body.Run<1>(index) for what remains.
template <int kCount, typename Body>
__global__ void ForEachKernel(std::int64_t count, Body body) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kCount;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kCount;
  for (; first + kCount <= count; first += stride) {
    body.template Run<kCount>(first);
  }
  for (std::int64_t index = first; index < count && index < first + kCount; ++index) {
    body.template Run<1>(index);
  }
}

// As ForEachKernel; body.Run returns what LargestOf says of what it has written.
template <int kCount, typename Body>
__global__ void ForEachNotingKernel(std::int64_t count, Body body, unsigned* largest) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kCount;
  std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kCount;
  unsigned bits = 0;
  for (; first + kCount <= count; first += stride) {
    bits = max(bits, body.template Run<kCount>(first));
  }
  for (std::int64_t index = first; index < count && index < first + kCount; ++index) {
    bits = max(bits, body.template Run<1>(index));
  }
  NoteLargest(largest, bits);
}

// `wide`: the body may be given 8 elements at a time, which start at a multiple of 8.
template <typename Body>
void ForEach(const CudaContext& context, std::int64_t count, bool wide, const Body& body) {
  constexpr int kThreads = 256;
  if (count <= 0) {
    return;
  }
  const std::int64_t most_blocks = static_cast<std::int64_t>(context.multiprocessors()) * 32;
  const std::int64_t blocks = std::min(CeilDiv(count, (wide ? 8 : 1) * kThreads), most_blocks);
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
  if (wide) {
    Launch(context, shape, ForEachKernel<8, Body>, count, body);
  } else {
    Launch(context, shape, ForEachKernel<1, Body>, count, body);
  }
}

// The slots of `largest`, cleared; null where it is missing.
inline unsigned* ClearedLargest(const CudaContext& context, const Tensor& largest) {
  auto* const slots = largest.as<unsigned>();
  if (slots != nullptr) {
    ClearMemory(context, slots, kLargestSlots * static_cast<std::int64_t>(sizeof(unsigned)));
  }
  return slots;
}

// ForEach with a body that tells what it has written; noted in `largest` unless that is null.
template <typename Body>
void ForEachNoting(const CudaContext& context, std::int64_t count, bool wide, const Body& body, unsigned* largest) {
  if (largest == nullptr || count <= 0) {
    return ForEach(context, count, wide, body);
  }
  constexpr int kThreads = 256;
  const std::int64_t most_blocks = static_cast<std::int64_t>(context.multiprocessors()) * 32;
  const std::int64_t blocks = std::min(CeilDiv(count, (wide ? 8 : 1) * kThreads), most_blocks);
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
  if (wide) {
    Launch(context, shape, ForEachNotingKernel<8, Body>, count, body, largest);
  } else {
    Launch(context, shape, ForEachNotingKernel<1, Body>, count, body, largest);
  }
}

// Whether all given pointers are at multiples of 16 bytes; null counts as aligned.
inline bool Aligned16(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) {
      return false;
    }
  }
  return true;
}

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls run with TypeTag<float>, TypeTag<Bf16> or TypeTag<Half>; other types are refused in the name of `operation`.
template <typename Function>
void DispatchFloat(DType dtype, const char* operation, const Function& run) {
  switch (dtype) {
    case DType::kFloat32:
      return run(TypeTag<float>{});
    case DType::kBFloat16:
      return run(TypeTag<Bf16>{});
    case DType::kFloat16:
      return run(TypeTag<Half>{});
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
    case DType::kUInt16:
      break;
  }
  RefuseType(dtype, operation);
}

}  // namespace trireme
