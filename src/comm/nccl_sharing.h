// Whether ranks have a GPU each or share one, and whether NCCL connects them there.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace trireme {

// How ranks use GPUs.
struct GpuUse {
  bool shared = false;       // some have one GPU in common, as threads of a process or as processes
  int ranks_of_context = 1;  // threads of this process that have one GPU, and so one CUDA context, in common, at most
};

// As threads of a process; more have not been run, and their streams would take more queues than a GPU has
// (waiting_streams.h).
inline constexpr int kMostRanksOfContext = 8;

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
