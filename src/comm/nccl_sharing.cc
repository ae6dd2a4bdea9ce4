#include "comm/nccl_sharing.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "comm/library_versions.h"
#include "comm/nccl_handle.h"

namespace trireme {
namespace {

// A number that stands for this thread's GPU in its machine.
std::int64_t GpuIdentity() {
  std::array<char, 256> machine{};
  std::array<char, 32> bus{};
  int gpu = 0;
  gethostname(machine.data(), machine.size() - 1);
  Require(cudaGetDevice(&gpu) == cudaSuccess &&
              cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), gpu) == cudaSuccess,
          "CUDA does not say which GPU is in use");
  return static_cast<std::int64_t>(RandomKey(RandomKey(0, machine.data()), bus.data()));
}

}  // namespace

bool NcclSharesGpus() {
  constexpr int kFirstThatDoes = 23000;
  const char* const wanted = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (wanted == nullptr || std::string_view(wanted) != "1") {
    return false;
  }
  int version = 0;
  CheckNccl(ncclGetVersion(&version), "ncclGetVersion");
  Require(version >= kFirstThatDoes,
          "NCCL_MULTI_RANK_GPU_ENABLE=1 needs NCCL 2.30 or later, this is {}; without it ranks of one process share a "
          "GPU without NCCL",
          NcclVersion());
  return true;
}

GpuSharing FindGpuSharing(Communicator& host) {
  std::int64_t own = GpuIdentity();
  std::vector<std::int64_t> all(static_cast<std::size_t>(host.size()));
  host.AllGather({&own, DType::kInt64, {1}}, {all.data(), DType::kInt64, {host.size()}});
  for (std::size_t one = 0; one < all.size(); ++one) {
    const auto other = std::find(all.begin() + static_cast<std::ptrdiff_t>(one) + 1, all.end(), all[one]);
    if (other != all.end()) {
      return {true, fmt::format("ranks {} and {} use one GPU", one, other - all.begin())};
    }
  }
  return {};
}

}  // namespace trireme
