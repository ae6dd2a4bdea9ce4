#include "device/cuda/event_pool.h"

#include "device/cuda/cuda_check.h"

namespace trireme {
namespace {

// Two around each collective, of as many as a rank enqueues between two looks of the watch; more are made when needed.
constexpr std::size_t kFirstEvents = 256;

cudaEvent_t NewEvent() {
  cudaEvent_t event = nullptr;
  CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
  return event;
}

}  // namespace

EventPool::EventPool() {
  spare_.resize(kFirstEvents);
  for (cudaEvent_t& event : spare_) {
    event = NewEvent();
  }
}

EventPool::~EventPool() {
  for (cudaEvent_t const event : spare_) {
    cudaEventDestroy(event);
  }
}

cudaEvent_t EventPool::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      cudaEvent_t const event = spare_.back();
      spare_.pop_back();
      return event;
    }
  }
  return NewEvent();
}

void EventPool::GiveBack(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(event);
}

Event EventPool::Record(cudaStream_t stream) {
  Event owner(Take(), [pool = shared_from_this()](cudaEvent_t last) { pool->GiveBack(last); });
  CheckCuda(cudaEventRecord(static_cast<cudaEvent_t>(const_cast<void*>(owner.get())), stream), "record an event");
  return owner;
}

Event EventPool::RecordOnce(cudaStream_t stream) {
  cudaEvent_t const event = NewEvent();
  Event owner(event, [](cudaEvent_t last) { cudaEventDestroy(last); });
  CheckCuda(cudaEventRecord(event, stream), "record an event");
  return owner;
}

}  // namespace trireme
