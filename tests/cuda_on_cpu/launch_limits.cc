#include "cuda_on_cpu/launch_limits.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/symbols.h"

namespace trireme::cuda_on_cpu {
namespace {

constexpr std::uint32_t kMostThreads = 1024;
constexpr std::uint64_t kUnaskedShared = 48 * 1024;
constexpr std::size_t kMostParameterBytes = 4096;

// By kernel.
std::map<const void*, std::uint64_t>& AllowedShared() {
  static std::map<const void*, std::uint64_t> allowed;
  return allowed;
}

cudaError_t Refuse(const KernelLaunch& launch, const std::string& why, cudaError_t error) {
  const std::string name = FunctionName(reinterpret_cast<std::uintptr_t>(launch.kernel));
  Report("launch limits " + name, fmt::format("launch limits: {} is started with {}", name, why));
  return error;
}

}  // namespace

cudaError_t CheckLimits(const KernelLaunch& launch) {
  constexpr unsigned kMostOfGrid = 65535;
  constexpr unsigned kMostAlongZ = 64;
  const std::uint64_t threads = std::uint64_t{launch.threads.x} * launch.threads.y * launch.threads.z;
  const dim3 blocks = launch.blocks;
  if (std::uint64_t{blocks.x} * blocks.y * blocks.z == 0 || threads == 0) {
    return Refuse(launch, "no blocks or no threads", cudaErrorInvalidConfiguration);
  }
  if (blocks.x > 0x7fffffffU || blocks.y > kMostOfGrid || blocks.z > kMostOfGrid) {
    return Refuse(launch, fmt::format("{} x {} x {} blocks", blocks.x, blocks.y, blocks.z),
                  cudaErrorInvalidConfiguration);
  }
  const std::uint64_t bounds = BytesBefore(reinterpret_cast<std::uintptr_t>(launch.kernel));
#if defined(__aarch64__)
  const std::uint64_t promised = bounds / 4;
#else
  const std::uint64_t promised = bounds;
#endif
  if (threads > kMostThreads || launch.threads.z > kMostAlongZ || (promised > 0 && threads > promised)) {
    return Refuse(launch, fmt::format("{} threads, and has __launch_bounds__({})", threads, promised),
                  threads > kMostThreads ? cudaErrorInvalidConfiguration : cudaErrorLaunchOutOfResources);
  }
  const auto allowed = AllowedShared().find(launch.kernel);
  const std::uint64_t most = allowed == AllowedShared().end() ? kUnaskedShared : allowed->second;
  if (launch.shared_bytes > most) {
    return Refuse(launch, fmt::format("{} bytes of dynamic shared memory, and may have {}", launch.shared_bytes, most),
                  cudaErrorInvalidValue);
  }
  if (launch.parameters.bytes > kMostParameterBytes) {
    return Refuse(launch, fmt::format("{} bytes of parameters", launch.parameters.bytes), cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

void AllowDynamicShared(const void* kernel, std::uint64_t bytes) { AllowedShared()[kernel] = bytes; }

}  // namespace trireme::cuda_on_cpu
