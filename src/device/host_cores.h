// The cores of this machine that the process may use (the launcher's affinity mask and the control groups' quota), and
// how ranks share them.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// A machine's processors have ids below this.
inline constexpr int kMostProcessors = 1 << 16;

// A logical processor. Processors of one `core` are its hardware threads.
struct Processor {
  int id = 0;
  int core = 0;  // the lowest processor of its core
  int node = 0;  // NUMA node
  bool operator==(const Processor&) const = default;
};

struct HostCores {
  std::vector<Processor> processors;  // of the affinity mask, ascending
  double quota = 0;                   // processors' worth of time by control groups; 0: no limit
  int online = 0;                     // processors of the whole machine

  // Cores of the mask. Hardware threads of one core count once: products use all of a core from one thread.
  int cores() const;
  // Threads that can run at full speed: cores, or less where the quota is less; at least 1.
  int usable() const;
  // NUMA nodes of the mask, ascending.
  std::vector<int> nodes() const;
  // Ids of the mask's processors, ascending.
  std::vector<int> ids() const;
};

// Reads the mask of this process's first thread from `root`/proc and the topology from `root`/sys. What cannot be read
// is taken as plain: every processor a core of one node, no quota.
HostCores ReadHostCores(const std::string& root = "");

// Cores of every processor that control groups and the launcher's own mask (mpirun within taskset, say) leave to the
// job on this machine, also those that the launcher bound other processes of the job to.
HostCores ReadMachineCores(const std::string& root = "");

// Threads for each of `ranks` ranks that share `cores`: an equal part, at least 1. OMP_NUM_THREADS, where it is set to
// a number, says it instead.
int ThreadsPerRank(const HostCores& cores, int ranks);

// "0-3,8" as 0 1 2 3 8, the form of the kernel's lists; what is malformed ends the list.
std::vector<int> ParseProcessorList(const std::string& text);
// The reverse.
std::string ProcessorListText(const std::vector<int>& processors);

}  // namespace trireme
