#include <cuda_runtime.h>

#include "device/cuda/architectures.h"

namespace trireme {
namespace {

__global__ void Probe() {}

}  // namespace

bool KernelsRunHere() {
  cudaFuncAttributes attributes{};
  const bool runs = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(Probe)) == cudaSuccess;
  cudaGetLastError();  // the next call must not report this one again
  return runs;
}

}  // namespace trireme
