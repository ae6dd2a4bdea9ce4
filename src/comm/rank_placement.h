// Threads and cores of the ranks that share this machine.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "device/pinning.h"

namespace trireme {

struct RankPlacement {
  int threads = 1;                           // per rank
  bool cores_suffice = false;                // ranks x threads run at once: a rank that waits may spin for a while
  std::vector<std::vector<int>> processors;  // that each rank is bound to; empty: the ranks are not bound
  std::unique_ptr<ProcessorClaim> claim;     // held as long as ranks are bound

  std::vector<int> of_rank(int rank) const {
    return processors.empty() ? std::vector<int>() : processors[static_cast<std::size_t>(rank)];
  }
};

// Where `ranks` ranks of one process go: options.threads and options.pin, with 0 threads and `auto` worked out from
// `cores`. Ranks on GPUs are not bound.
RankPlacement PlaceRanks(const HostCores& cores, int ranks, const DeviceOptions& options);

}  // namespace trireme
