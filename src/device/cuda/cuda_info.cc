#include <cuda_runtime.h>
#include <fmt/format.h>

#include "device/cuda/attention.h"
#include "device/cudnn_version.h"
#include "device/device.h"
#include "device/gpu_architectures.h"
#include "device/gpu_info.h"

namespace trireme {
namespace {

std::string VersionText(int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

}  // namespace

CudaFacts DescribeCuda() {
  CudaFacts facts{.built = true, .cudnn = TRIREME_CUDNN_VERSION, .architectures = TRIREME_CUDA_ARCHITECTURES};
  const int count = CudaDeviceCount();  // first: it sets what CUDA reads when it starts
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) {
    facts.toolkit = VersionText(version);
  }
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0) {
    facts.driver = VersionText(version);
  }
  const std::int64_t cudnn = count > 0 ? CudnnAttention::LoadedVersion() : 0;
  if (cudnn > 0) {
    facts.cudnn = CudnnVersionText(cudnn);
    facts.cudnn_note = CudnnNote(cudnn);
  }
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
      const int capability = properties.major * 10 + properties.minor;
      facts.gpus.push_back({.name = properties.name,
                            .capability = capability,
                            .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                            .built_for = HasKernelsFor(TRIREME_CUDA_BUILT_FOR, capability)});
    }
  }
  return facts;
}

}  // namespace trireme
