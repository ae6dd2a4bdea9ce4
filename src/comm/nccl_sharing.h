// Whether ranks have a GPU each or share one, and whether NCCL connects them there.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace trireme {

// How ranks use GPUs: one each, or several one GPU, as threads of a process, whose kernels share a context, or as
// processes.
enum class GpuUse : std::uint8_t { kOneEach, kSharedByThreads, kSharedByProcesses };

// Whether ranks of one GPU may connect: NCCL 2.30 or later does it when NCCL_MULTI_RANK_GPU_ENABLE=1 is in the
// environment. An Error when that is set and the library is older.
bool NcclSharesGpus();

// How the ranks' GPUs, the calling threads' current ones, are divided among them.
struct GpuSharing {
  bool shared = false;
  std::string message;  // names two ranks of one GPU
};
// Collective; `host` has tensors in host memory.
GpuSharing FindGpuSharing(Communicator& host);

}  // namespace trireme
