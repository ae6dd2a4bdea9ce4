// What ranks do together only because they share one GPU over NCCL. A kernel that waits for another rank stays in the
// GPU's queue, and what needs the GPU idle (to load a kernel, to record a graph, to free memory) would wait for it in
// the driver, and with it the thread of that other rank. Above the communicators all such code is here; where each rank
// has a GPU of its own, all of it does nothing.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "comm/grid_comms.h"

namespace trireme {

class SharedGpu {
 public:
  // Both outlive this.
  SharedGpu(GridComms& comms, Device& device) : comms_(comms), device_(device) {}

  // Begins a step of so many micro batches, or an evaluation (0). The first of its count loads kernels and measures
  // products: until EndPass its calls go through host memory. Collective.
  void BeginPass(int micro_batches);
  // After the work of the pass. Collective.
  void EndPass();
  // Before work that is launched for a whole micro batch or more: a rank that is ahead, because rank 0 writes its log,
  // say, would fill the GPU's queue with kernels that wait for the others. Collective.
  void BeginTogether();
  // Calls `record`, which records what steps of so many micro batches repeat, before the second such step, while no
  // rank has work on the device; afterwards the device records nothing on its own. Collective.
  void RecordWhileIdle(int micro_batches, const std::function<void()>& record);

  // Before the end of what `world` and `device` serve: to end communicators and to free memory waits for the GPU, which
  // other ranks may still need. Collective.
  static void Leave(Communicator& world, Device& device);

 private:
  bool shared() { return comms_.world().shares_device(); }
  // Returns when no rank has work on the device. Collective.
  void IdleBarrier();

  GridComms& comms_;
  Device& device_;
  std::set<int> begun_;          // counts of micro batches that a pass has begun with
  std::map<int, int> steps_of_;  // by their micro batches
  bool through_host_ = false;    // the pass at hand
};

}  // namespace trireme
