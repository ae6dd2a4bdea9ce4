#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda_on_cpu/faulty_kernels.h"
#include "device/cuda/launch.cuh"

namespace trireme::cuda_on_cpu {
namespace {

constexpr int kThreads = 64;

__global__ void NeighbourKernel(float* out, bool waits) {
  __shared__ float values[kThreads];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (waits) {
    __syncthreads();
  }
  out[threadIdx.x] = values[(threadIdx.x + 40) % kThreads];
}

__global__ void TwoWritersKernel(float* out) {
  __shared__ float value;
  value = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = value;
}

// Every thread reads before the first writes.
__global__ void ReadersKernel(float* out, bool waits) {
  __shared__ float value;
  if (threadIdx.x == 0) {
    value = 1;
  }
  __syncthreads();
  const float read = value;
  if (waits) {
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    value = 2;
  }
  out[threadIdx.x] = read;
}

__global__ void UnwrittenSharedKernel(float* out) {
  __shared__ float values[kThreads];
  if (threadIdx.x > 0) {
    values[threadIdx.x] = 1;
  }
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}

__device__ void SetLast(float* values, int count) { values[count] = 1; }

__global__ void BehindStaticKernel(float* out) {
  __shared__ float values[7];
  values[threadIdx.x % 7] = 1;
  SetLast(values, 7);
  out[threadIdx.x] = 1;
}

// What lies behind may be another kernel's array.
__global__ void BehindWholeLinesKernel(float* out) {
  __shared__ float values[16];
  values[threadIdx.x % 16] = 1;
  SetLast(values, 16);
  out[threadIdx.x] = 1;
}

__global__ void BehindDynamicKernel(float* out) {
  TRIREME_DYNAMIC_SHARED(float, values);
  values[threadIdx.x] = 1;
  out[threadIdx.x] = 1;
}

__global__ void BlocksKernel(float* out, bool same) { out[same ? 0 : blockIdx.x] = 1; }

__global__ void BlocksAddKernel(float* out, bool atomic) {
  if (atomic) {
    atomicAdd(out, 1);
  } else {
    *out += 1;
  }
}

__global__ void AtomicAndPlainKernel(float* out) {
  if (blockIdx.x == 0) {
    atomicAdd(out, 1);
  } else {
    out[1] = *out;
  }
}

__global__ void WarpKernel(float* out, bool waits) {
  out[threadIdx.x] = 1;
  if (waits) {
    __syncwarp();
  }
  out[kThreads + threadIdx.x] = out[threadIdx.x ^ 1U];
}

// A shuffle orders no memory.
__global__ void ShuffleKernel(float* out) {
  out[threadIdx.x] = 1;
  const float other = __shfl_xor_sync(0xffffffffU, 1.0F, 1);
  out[kThreads + threadIdx.x] = out[threadIdx.x ^ 1U] + other;
}

__global__ void AcrossWarpsKernel(float* out, bool waits) {
  out[threadIdx.x] = 1;
  if (waits) {
    __syncthreads();
  }
  out[kThreads + threadIdx.x] = out[threadIdx.x ^ 32U];
}

__global__ void ReadKernel(const float* from, float* out, int distance) {
  out[threadIdx.x] = from[static_cast<int>(threadIdx.x) + distance];
}

__global__ void WideKernel(const float* from, float* out, int distance) {
  const float4 read = *reinterpret_cast<const float4*>(from + distance);
  out[threadIdx.x] = read.x + read.w;
}

__global__ void SmallTypesKernel(float* out) {
  reinterpret_cast<unsigned char*>(out)[threadIdx.x] = 1;
  reinterpret_cast<unsigned short*>(out + kThreads)[threadIdx.x] = 2;
  __syncthreads();
  out[2 * kThreads + threadIdx.x] = reinterpret_cast<unsigned short*>(out + kThreads)[threadIdx.x ^ 1U];
  reinterpret_cast<unsigned char*>(out)[threadIdx.x] += 1;
}

__global__ void LeavesEarlyKernel(float* out, int leaves) {
  if (static_cast<int>(threadIdx.x) == leaves) {
    return;
  }
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void TwoBarriersKernel(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
    out[threadIdx.x] = 1;
  } else {
    __syncthreads();
    out[threadIdx.x] = 2;
  }
}

__global__ void LeavesWarpKernel(float* out, int leaves) {
  if (static_cast<int>(threadIdx.x) == leaves) {
    return;
  }
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffU, 1.0F, 1);
}

// Lanes that are ahead by many shuffles, and one that takes part in one fewer.
__global__ void BroadcastKernel(float* out, int leaves) {
  float sum = 0;
  for (int i = 0; i < 100; ++i) {
    if (static_cast<int>(threadIdx.x) != leaves || i < 99) {
      sum += __shfl_sync(0xffffffffU, static_cast<float>(threadIdx.x), i % 2);
    }
  }
  __syncthreads();
  out[threadIdx.x] = sum == static_cast<float>(threadIdx.x / 32 * 3200 + 50) ? 1.0F : NAN;
}

// A lane that reduces where others shuffle.
__global__ void OtherOperationKernel(float* out) {
  if (threadIdx.x == 5) {
    out[threadIdx.x] = static_cast<float>(__reduce_max_sync(0xffffffffU, 1U));
  } else {
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffU, 1.0F, 16);
  }
}

// A lane that shuffles by a number where others shuffle across.
__global__ void OtherShuffleKernel(float* out) {
  out[threadIdx.x] = threadIdx.x == 5 ? __shfl_sync(0xffffffffU, 1.0F, 0) : __shfl_xor_sync(0xffffffffU, 1.0F, 16);
}

__global__ void ElsewhereKernel(float* out) {
  if (threadIdx.x == 3) {
    __syncthreads();
  }
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffU, 1.0F, 1);
}

__global__ void OwnMaskKernel(float* out) { out[threadIdx.x] = __shfl_xor_sync(0xfU, 1.0F, 1); }

__global__ void HalfMaskKernel(float* out) {
  const unsigned half = threadIdx.x % 32 < 16 ? 0xffffU : 0xffff0000U;
  out[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp(half);
  out[kThreads + threadIdx.x] = out[threadIdx.x ^ 1U];
}

__global__ void LocalArrayKernel(float* out, int index) {
  float values[4] = {1, 2, 3, 4};
  values[index] = out[threadIdx.x];
  out[threadIdx.x] = values[threadIdx.x % 4];
}

__global__ void __launch_bounds__(kThreads) BoundedKernel(float* out) { out[threadIdx.x] = 1; }

struct Large {
  char bytes[5000];
};
__global__ void LargeParameterKernel(float* out, Large large) { out[threadIdx.x] = large.bytes[0]; }

LaunchShape Blocks(unsigned blocks, unsigned threads = kThreads) { return {dim3(blocks), dim3(threads)}; }

// A launch that is refused: Launch would throw.
template <typename... Parameters, typename... Arguments>
void Refused(const CudaContext& context, const LaunchShape& shape, void (*kernel)(Parameters...),
             const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = context.stream();
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

using Context = const CudaContext&;
using Memory = const KernelMemory&;

}  // namespace

const std::vector<SmallKernel>& SmallKernels() {
  static const std::vector<SmallKernel> kernels{
      {"Neighbour", "", [](Context c, Memory m) { Launch(c, Blocks(1), NeighbourKernel, m.zeros, true); }},
      {"NeighbourWithoutBarrier", "race in shared memory",
       [](Context c, Memory m) { Launch(c, Blocks(1), NeighbourKernel, m.zeros, false); }},
      {"TwoWriters", "race in shared memory",
       [](Context c, Memory m) { Launch(c, Blocks(1), TwoWritersKernel, m.zeros); }},
      {"Readers", "", [](Context c, Memory m) { Launch(c, Blocks(1), ReadersKernel, m.zeros, true); }},
      {"ReadersWithoutBarrier", "race in shared memory",
       [](Context c, Memory m) { Launch(c, Blocks(1), ReadersKernel, m.zeros, false); }},
      {"UnwrittenShared", "uninitialised shared memory: ",
       [](Context c, Memory m) { Launch(c, Blocks(1), UnwrittenSharedKernel, m.zeros); }},
      {"BehindStatic", "bytes behind a shared array",
       [](Context c, Memory m) { Launch(c, Blocks(1, 1), BehindStaticKernel, m.zeros); }},
      {"BehindWholeLines", "bytes behind a shared array",
       [](Context c, Memory m) { Launch(c, Blocks(1, 1), BehindWholeLinesKernel, m.zeros); }},
      {"Dynamic", "",
       [](Context c, Memory m) {
         Launch(c, {dim3(1), dim3(kThreads), kThreads * 4}, BehindDynamicKernel, m.zeros);
       }},
      {"BehindDynamic", "dynamic shared memory at byte 252 of 252",
       [](Context c, Memory m) {
         Launch(c, {dim3(1), dim3(kThreads), kThreads * 4 - 4}, BehindDynamicKernel, m.zeros);
       }},
      {"Blocks", "", [](Context c, Memory m) { Launch(c, Blocks(8, 1), BlocksKernel, m.zeros, false); }},
      {"BlocksToOnePlace", "race between blocks",
       [](Context c, Memory m) { Launch(c, Blocks(8, 1), BlocksKernel, m.zeros, true); }},
      {"BlocksAdd", "", [](Context c, Memory m) { Launch(c, Blocks(8), BlocksAddKernel, m.zeros, true); }},
      {"BlocksAddPlainly", "race between blocks",
       [](Context c, Memory m) { Launch(c, Blocks(8, 1), BlocksAddKernel, m.zeros, false); }},
      {"AtomicAndPlain", "race between blocks",
       [](Context c, Memory m) { Launch(c, Blocks(2, 1), AtomicAndPlainKernel, m.zeros); }},
      {"Warp", "", [](Context c, Memory m) { Launch(c, Blocks(1), WarpKernel, m.zeros, true); }},
      {"WarpWithoutSync", "race within a warp",
       [](Context c, Memory m) { Launch(c, Blocks(1), WarpKernel, m.zeros, false); }},
      {"ShuffleForSync", "race within a warp",
       [](Context c, Memory m) { Launch(c, Blocks(1), ShuffleKernel, m.zeros); }},
      {"AcrossWarps", "", [](Context c, Memory m) { Launch(c, Blocks(1), AcrossWarpsKernel, m.zeros, true); }},
      {"AcrossWarpsWithoutBarrier", "race within a block",
       [](Context c, Memory m) { Launch(c, Blocks(1), AcrossWarpsKernel, m.zeros, false); }},
      {"UnwrittenGlobal", "uninitialised global memory",
       [](Context c, Memory m) { Launch(c, Blocks(1), ReadKernel, m.unwritten, m.zeros, 0); }},
      {"PastTheEnd", "out of bounds",
       [](Context c, Memory m) { Launch(c, Blocks(1), ReadKernel, m.zeros, m.zeros, kFloats - kThreads + 1); }},
      {"BeforeTheBeginning", "byte -4 of an allocation of 65536 bytes",
       [](Context c, Memory m) { Launch(c, Blocks(1, 1), ReadKernel, m.zeros, m.zeros, -1); }},
      {"Wide", "", [](Context c, Memory m) { Launch(c, Blocks(1, 1), WideKernel, m.zeros, m.zeros, 8); }},
      {"WideAtAnOddPlace", "misaligned access",
       [](Context c, Memory m) { Launch(c, Blocks(1, 1), WideKernel, m.zeros, m.zeros, 3); }},
      {"SmallTypes", "", [](Context c, Memory m) { Launch(c, Blocks(1), SmallTypesKernel, m.zeros); }},
      {"ReachesTheBarrier", "", [](Context c, Memory m) { Launch(c, Blocks(1), LeavesEarlyKernel, m.zeros, -1); }},
      {"LeavesBeforeTheBarrier", "barrier not reached by all: LeavesEarlyKernel",
       [](Context c, Memory m) { Launch(c, Blocks(1), LeavesEarlyKernel, m.zeros, 7); }},
      {"TwoBarriers", "barrier not reached by all",
       [](Context c, Memory m) { Launch(c, Blocks(1), TwoBarriersKernel, m.zeros); }},
      {"LeavesTheWarp", "absent lane: LeavesWarpKernel",
       [](Context c, Memory m) { Launch(c, Blocks(1), LeavesWarpKernel, m.zeros, 7); }},
      {"HalfAWarp", "absent lane",
       [](Context c, Memory m) { Launch(c, Blocks(1, 48), LeavesWarpKernel, m.zeros, -1); }},
      {"Elsewhere", "lanes at different places",
       [](Context c, Memory m) { Launch(c, Blocks(1), ElsewhereKernel, m.zeros); }},
      {"Broadcast", "", [](Context c, Memory m) { Launch(c, Blocks(1), BroadcastKernel, m.zeros, -1); }},
      {"OneBroadcastFewer", "lanes at different places: BroadcastKernel, block (0, 0, 0), thread ",
       [](Context c, Memory m) { Launch(c, Blocks(1), BroadcastKernel, m.zeros, 7); }},
      {"OtherOperation", "lanes at different places",
       [](Context c, Memory m) { Launch(c, Blocks(1), OtherOperationKernel, m.zeros); }},
      {"OtherShuffle", "lanes at different places",
       [](Context c, Memory m) { Launch(c, Blocks(1), OtherShuffleKernel, m.zeros); }},
      {"OwnMask", "is not in its own mask",
       [](Context c, Memory m) { Launch(c, Blocks(1, 32), OwnMaskKernel, m.zeros); }},
      {"HalfMask", "", [](Context c, Memory m) { Launch(c, Blocks(1), HalfMaskKernel, m.zeros); }},
      {"LocalArray", "", [](Context c, Memory m) { Launch(c, Blocks(1), LocalArrayKernel, m.zeros, 3); }},
      {"PastALocalArray", "index out of bounds",
       [](Context c, Memory m) { Launch(c, Blocks(1), LocalArrayKernel, m.zeros, 4); }},
      {"HostMemory", "the address is the host's, or none",
       [](Context c, Memory m) {
         static float host = 0;
         Launch(c, Blocks(1), ReadKernel, m.zeros, &host, 0);
       }},
      {"Bounded", "", [](Context c, Memory m) { Launch(c, Blocks(1), BoundedKernel, m.zeros); }},
      {"MoreThreadsThanBounded", "128 threads, and has __launch_bounds__(64)",
       [](Context c, Memory m) { Refused(c, Blocks(1, 128), BoundedKernel, m.zeros); }},
      {"TooManyThreads", "1056 threads",
       [](Context c, Memory m) { Refused(c, Blocks(1, 1056), LeavesEarlyKernel, m.zeros, -1); }},
      {"NoBlocks", "no blocks", [](Context c, Memory m) { Refused(c, Blocks(0), BoundedKernel, m.zeros); }},
      {"TooManyRowsOfBlocks", "x 65536 x",
       [](Context c, Memory m) {
         Refused(c, {dim3(1, 65536), dim3(1)}, BoundedKernel, m.zeros);
       }},
      {"UnaskedShared", "bytes of dynamic shared memory, and may have 49152",
       [](Context c, Memory m) {
         Refused(c, {dim3(1), dim3(1), 50000}, BehindDynamicKernel, m.zeros);
       }},
      {"LargeParameter", "5008 bytes of parameters",
       [](Context c, Memory m) { Refused(c, Blocks(1), LargeParameterKernel, m.zeros, Large{}); }},
  };
  return kernels;
}

__global__ void WriteKernel(float* memory, float value) { memory[blockIdx.x * kThreads + threadIdx.x] = value; }

void StartWrite(const CudaContext& context, float* memory, float value) {
  Launch(context, Blocks(4), WriteKernel, memory, value);
}

void StartRead(const CudaContext& context, const float* memory, float* out) {
  Launch(context, Blocks(1), ReadKernel, memory, out, 0);
}

}  // namespace trireme::cuda_on_cpu
