// Ranks on cores of their own. A rank is bound to a set of cores, one for each of its threads; its threads inherit the
// set, and memory that they touch first lies on their NUMA node. Only cores of the mask that the launcher gave are
// used.
#pragma once

#include <string>
#include <vector>

#include "device/host_cores.h"

namespace trireme {

struct PinRequest {
  std::string choice =
      "none";       // none; auto: where the mask spans several NUMA nodes and no other job shares them; cores
  int ranks = 1;    // that share the mask
  int threads = 1;  // per rank
};

// Processors for each rank, or nothing where ranks are not to be bound: choice is none; ranks x threads is more than
// the cores; under auto, one NUMA node, where the kernel's own placement is as good. A rank's cores lie on one node
// where that is possible, and consecutive ranks lie side by side.
std::vector<std::vector<int>> ProcessorsOfRanks(const HostCores& cores, const PinRequest& request);

// Binds the calling thread, and threads that it starts from now on, to `processors`. False when the kernel refuses.
bool BindThisThread(const std::vector<int>& processors);
// Processors that the calling thread is bound to, ascending; empty when the kernel does not say.
std::vector<int> ProcessorsOfThisThread();

// A claim on processors of this machine among Trireme's jobs of all users, held until the object ends.
class ProcessorClaim {
 public:
  // Claims `processors` in the file `path`, in which byte N stands for processor N.
  explicit ProcessorClaim(const std::vector<int>& processors, const std::string& path = "/tmp/trireme-processors.lock");
  ~ProcessorClaim();
  ProcessorClaim(const ProcessorClaim&) = delete;
  ProcessorClaim& operator=(const ProcessorClaim&) = delete;

  // False when another job has claimed one of the processors, or when the file cannot be used.
  bool alone() const { return alone_; }

 private:
  int file_ = -1;
  bool alone_ = false;
};

}  // namespace trireme
