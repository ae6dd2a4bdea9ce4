// What the ranks of one process share over NCCL: every communicator that was made, so that all can be aborted at once,
// and the watch over their collectives. Any thread.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/device_call_watch.h"
#include "comm/nccl_sharing.h"

namespace trireme {

class NcclHandle;

class NcclSession {
 public:
  // `abort_world` ends every rank with a message; it is called by the watch. May be empty: then it is only printed.
  using AbortWorld = std::function<void(int rank, const std::string& message)>;
  // Where ranks share a GPU a collective takes one multiprocessor only.
  NcclSession(GpuUse use, AbortWorld abort_world);
  // Waits for aborts that are under way. Recordings that hold collectives (Device::Repeat) must be gone.
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  bool gpu_is_shared() const { return use_.shared; }
  // Ranks of this process whose kernels share a CUDA context: to load a kernel waits for the kernels of all.
  int ranks_of_context() const { return use_.ranks_of_context; }
  bool ranks_share_context() const { return use_.ranks_of_context > 1; }
  // Writes one line to stderr.
  static void Say(const std::string& text);
  DeviceCallWatch& watch() { return watch_; }

  void Add(NcclHandle& handle);
  void Remove(NcclHandle& handle);
  // Ends all collectives of all ranks of this process; later calls throw. Devices stop waiting at once. NCCL itself
  // waits until recordings of its collectives are gone, which is left to threads of the session's own.
  void AbortAll();
  bool aborted() const { return aborted_; }

 private:
  const GpuUse use_;
  const AbortWorld abort_world_;
  std::mutex mutex_;
  std::vector<NcclHandle*> handles_;
  std::vector<std::thread> aborts_;
  std::atomic<bool> aborted_ = false;
  DeviceCallWatch watch_;  // last: its thread uses the others
};

}  // namespace trireme
