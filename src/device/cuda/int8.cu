// Int8 blocks (base/int8_block.h): 16 threads a block of 64 numbers, four numbers and one word each. Products and sums
// are rounded one by one, as on the CPU.
#include "base/int8_block.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kLanes = static_cast<int>(kInt8Block) / 4;
constexpr int kInt8Threads = 256;
constexpr int kBlocksPerGrid = kInt8Threads / kLanes;

template <typename T>
__global__ void __launch_bounds__(kInt8Threads) PackKernel(std::int32_t* packed, const T* from, std::int64_t blocks) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kBlocksPerGrid + threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const bool inside = block < blocks;
  float values[4] = {};
  unsigned largest = 0;
  for (int i = 0; inside && i < 4; ++i) {
    values[i] = static_cast<float>(from[block * kInt8Block + 4 * lane + i]);
    largest = max(largest, __float_as_uint(values[i]) & 0x7fffffffU);
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffffU, largest, distance));
  }
  if (!inside) {
    return;
  }
  const Int8Scale scale = ScaleOfBlock(largest, __uint_as_float(largest));
  unsigned word = 0;
  for (int i = 0; scale.inverse != 0 && i < 4; ++i) {
    word |= (static_cast<unsigned>(ToInt8(values[i], scale.inverse)) & 0xffU) << (8 * i);
  }
  std::int32_t* const to = packed + block * kInt8Words;
  to[1 + lane] = static_cast<std::int32_t>(word);
  if (lane == 0) {
    to[0] = __float_as_int(scale.scale);
  }
}

template <typename T>
__global__ void __launch_bounds__(kInt8Threads)
    UnpackKernel(T* to, const std::int32_t* packed, std::int64_t blocks, int parts, bool add) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kBlocksPerGrid + threadIdx.x / kLanes;
  if (block >= blocks) {
    return;
  }
  const int lane = threadIdx.x % kLanes;
  float total[4] = {};
  for (int part = 0; part < parts; ++part) {
    const std::int32_t* const from = packed + (part * blocks + block) * kInt8Words;
    const float scale = __int_as_float(from[0]);
    const auto word = static_cast<unsigned>(from[1 + lane]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto number = static_cast<float>(static_cast<signed char>(word >> (8 * i)));
      total[i] = __fadd_rn(total[i], __fmul_rn(number, scale));
    }
  }
  T* const values = to + block * kInt8Block + 4 * lane;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float before = add ? static_cast<float>(values[i]) : 0.0F;
    values[i] = static_cast<T>(__fadd_rn(before, total[i]));
  }
}

dim3 GridOf(std::int64_t blocks) { return dim3(static_cast<unsigned>(CeilDiv(blocks, kBlocksPerGrid))); }

}  // namespace

void CudaOps::DoPackInt8(const Tensor& packed, const Tensor& from) {
  const std::int64_t blocks = from.count() / kInt8Block;
  DispatchFloat(from.dtype, "PackInt8", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(context_, {GridOf(blocks), dim3(kInt8Threads)}, PackKernel<T>, packed.as<std::int32_t>(),
           static_cast<const T*>(from.as<T>()), blocks);
  });
}

void CudaOps::DoUnpackInt8(const Tensor& to, const Tensor& packed, const Int8Sum& sum) {
  const std::int64_t blocks = to.count() / kInt8Block;
  DispatchFloat(to.dtype, "UnpackInt8", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(context_, {GridOf(blocks), dim3(kInt8Threads)}, UnpackKernel<T>, to.as<T>(),
           static_cast<const std::int32_t*>(packed.as<std::int32_t>()), blocks, sum.parts, sum.add);
  });
}

}  // namespace trireme
