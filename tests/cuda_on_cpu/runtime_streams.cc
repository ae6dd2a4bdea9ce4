// The functions of CUDA's runtime for streams and events.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/graphs.h"
#include "cuda_on_cpu/streams.h"

namespace trireme::cuda_on_cpu {
namespace {

EventState* EventOf(cudaEvent_t event) { return reinterpret_cast<EventState*>(event); }

}  // namespace

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) {
  *least = 0;
  *most = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/, int /*priority*/) {
  const auto lock = LockGpu();
  *stream = reinterpret_cast<cudaStream_t>(NewStream());
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto lock = LockGpu();
  EndStream(StreamOf(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const auto lock = LockGpu();
  Stream* const stream = StreamOf(handle);
  if (stream->capture != nullptr) {
    ReportForbidden("cudaStreamSynchronize", *stream->capture);
    return Status(cudaErrorStreamCaptureUnsupported);
  }
  WaitFor(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned /*flags*/) {
  const auto lock = LockGpu();
  Stream* const stream = StreamOf(handle);
  const EventState& event = *EventOf(event_handle);
  if (event.capture != nullptr && event.capture->ended) {
    Report("capture over", "illegal: a wait for an event of recorded work, after the recording");
    return Status(cudaErrorCapturedEvent);
  }
  if (event.capture != nullptr) {
    if (stream->capture == nullptr) {
      stream->capture = event.capture;
      stream->frontier.clear();
      event.capture->streams.push_back(stream);
    }
    if (stream->capture != event.capture) {
      ReportForbidden("a wait for another recording's event", *stream->capture);
      return Status(cudaErrorStreamCaptureMerge);
    }
    for (Node* const node : event.frontier) {
      if (std::ranges::find(stream->frontier, node) == stream->frontier.end()) {
        stream->frontier.push_back(node);
      }
    }
    return cudaSuccess;
  }
  if (stream->capture != nullptr) {
    ReportForbidden("a wait for an event of work that is not recorded", *stream->capture);
    return Status(cudaErrorStreamCaptureIsolation);
  }
  if (event.marker != nullptr) {
    stream->clock.Join(event.marker->clock);
    PutItem(stream, {.run = nullptr, .reach = nullptr, .wait = event.marker});
  }
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new EventState);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto lock = LockGpu();
  delete EventOf(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const auto lock = LockGpu();
  Stream* const stream = StreamOf(stream_handle);
  EventState& event = *EventOf(handle);
  event.capture = stream->capture;
  event.frontier = stream->frontier;
  event.marker = nullptr;
  event.asked = false;
  if (stream->capture == nullptr) {
    event.marker = std::make_shared<Marker>();
    event.marker->clock = stream->clock;
    PutItem(stream, {.run = nullptr, .reach = event.marker, .wait = nullptr});
  }
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const auto lock = LockGpu();
  const EventState& event = *EventOf(handle);
  if (event.capture != nullptr) {
    Report("capture event", "illegal: the host waits for an event that was recorded with work");
    return Status(cudaErrorCapturedEvent);
  }
  if (event.marker != nullptr) {
    WaitFor(event.marker);
  }
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const auto lock = LockGpu();
  EventState& event = *EventOf(handle);
  if (event.capture != nullptr) {
    Report("capture event", "illegal: the host asks for an event that was recorded with work");
    return Status(cudaErrorCapturedEvent);
  }
  if (event.marker == nullptr) {
    return cudaSuccess;
  }
  if (!event.marker->reached) {
    if (!std::exchange(event.asked, true)) {
      RunSome();
      return Status(cudaErrorNotReady);
    }
    RunAll();
  }
  HostClock().Join(event.marker->clock);
  return cudaSuccess;
}
// Not a time: the operations between, so that what is chosen by measurements is always the same.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const auto lock = LockGpu();
  *milliseconds =
      0.001F * static_cast<float>(1 + EventOf(end)->marker->operations - EventOf(begin)->marker->operations);
  return cudaSuccess;
}

}  // extern "C"
}  // namespace trireme::cuda_on_cpu
