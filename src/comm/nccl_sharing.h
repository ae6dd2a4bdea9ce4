// Whether ranks have a GPU each or share one, and whether NCCL connects them there.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace trireme {

// How ranks use GPUs.
struct GpuUse {
  bool shared = false;       // several ranks, threads or processes, use one GPU
  int ranks_of_context = 1;  // ranks of this process per GPU, rounded up: threads that share a CUDA context
};

// The most thread ranks that share a GPU over NCCL. More have not been run: their streams would need more hardware
// queues than a context has (waiting_streams.h).
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
