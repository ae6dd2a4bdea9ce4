#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

#include "device/device.h"
#include "device/gpu_info.h"

namespace trireme {
namespace {

std::string VersionText(int version) { return fmt::format("{}.{}", version / 1000, version / 10 % 100); }

// Machine code runs on the architecture it was made for and on later ones of the same generation (8.0 on 8.6). The
// newest of the list is there for drivers to translate, too. Asking the driver would start a context on every GPU.
bool BuiltFor(const std::string& architectures, int capability) {
  std::istringstream list(architectures);
  int newest = 0;
  for (std::string word; std::getline(list, word, ',');) {
    newest = std::atoi(word.c_str());
    if (newest / 10 == capability / 10 && newest <= capability) {
      return true;
    }
  }
  return newest > 0 && capability >= newest;
}

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
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
      const int capability = properties.major * 10 + properties.minor;
      facts.gpus.push_back({.name = properties.name,
                            .capability = capability,
                            .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                            .built_for = BuiltFor(facts.architectures, capability)});
    }
  }
  return facts;
}

}  // namespace trireme
