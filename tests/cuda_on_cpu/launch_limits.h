// What CUDA refuses to start: too many threads or blocks, too much shared memory, parameters that are too large.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda_on_cpu/executor.h"

namespace trireme::cuda_on_cpu {

// cudaSuccess, or what the runtime says of a launch that exceeds a limit, which is then reported.
cudaError_t CheckLimits(const KernelLaunch& launch);
// More dynamic shared memory than 48 KiB, as cudaFuncSetAttribute allows it.
void AllowDynamicShared(const void* kernel, std::uint64_t bytes);

}  // namespace trireme::cuda_on_cpu
