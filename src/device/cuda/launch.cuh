// Starts a kernel on a context's stream and checks that it started.
#pragma once

#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_context.h"
#include "device/cuda/kernel_macros.h"

namespace trireme {

struct LaunchShape {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
};

// Arguments are converted to the kernel's parameter types. Asynchronous.
template <typename... Parameters, typename... Arguments>
void Launch(const CudaContext& context, const LaunchShape& shape, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  constexpr std::size_t kUnaskedSharedBytes = 48 * 1024;
  if (shape.shared_bytes > kUnaskedSharedBytes) {
    CheckCuda(cudaFuncSetAttribute(TRIREME_KERNEL(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shape.shared_bytes)),
              "ask for shared memory");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = context.stream();
  CheckCuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "start a kernel");
}

}  // namespace trireme
