// Events of one GPU, used again: while the GPU works, making one and destroying it take the driver many times as long
// as recording it (benchmarks/nccl_host_cost.cc), and hold up other threads that use the driver.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"

namespace trireme {

// Lives as long as the last of its events. Any thread.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  // Makes the first events, of the calling thread's GPU.
  EventPool();
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // An event after all work that was put into `stream`, of the calling thread's GPU, so far. It comes back to the pool
  // with its last copy: a stream that was told to wait for it waits for what it marked then.
  Event Record(cudaStream_t stream);
  // Records an event while the stream's work is being recorded: such an event belongs to the recording and is not used
  // again.
  static Event RecordOnce(cudaStream_t stream);

 private:
  cudaEvent_t Take();
  void GiveBack(cudaEvent_t event);

  std::mutex mutex_;
  std::vector<cudaEvent_t> spare_;
};

}  // namespace trireme
