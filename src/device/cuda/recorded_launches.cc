#include "device/cuda/recorded_launches.h"

#include <memory>
#include <type_traits>

#include "device/cuda/clear_memory.h"
#include "device/cuda/cuda_check.h"

namespace trireme {

RecordedLaunches::~RecordedLaunches() { Clear(); }

void RecordedLaunches::Clear() {
  cudaStreamSynchronize(context_.stream());
  for (auto& [key, recording] : recordings_) {
    Forget(recording);
  }
  recordings_.clear();
}

void RecordedLaunches::Forget(Recording& recording) {
  if (recording.graph != nullptr) {
    cudaGraphExecDestroy(recording.graph);
    recording.graph = nullptr;
  }
}

void RecordedLaunches::Repeat(std::int64_t key, const std::function<void()>& work) {
  Recording& recording = recordings_[key];
  if (recording.generation != context_.generation() || (recording.graph == nullptr && !repeat_records_)) {
    Forget(recording);
    work();
    recording.generation = context_.generation();
    return;
  }
  if (recording.graph == nullptr) {
    Record(recording, work);
  } else {
    ops_.AddFlops(recording.flops);
  }
  CheckCuda(cudaGraphLaunch(recording.graph, context_.stream()), "start recorded work");
}

bool RecordedLaunches::Prepare(std::int64_t key, const std::function<void()>& work) {
  Recording& recording = recordings_[key];
  if (recording.generation != context_.generation()) {
    return false;
  }
  if (recording.graph == nullptr) {
    const FlopCount before = ops_.flops();
    Record(recording, work);
    ops_.AddFlops({.matmul = before.matmul - ops_.flops().matmul,
                   .attention = before.attention - ops_.flops().attention,
                   .recomputed = before.recomputed - ops_.flops().recomputed});  // nothing was started
    CheckCuda(cudaGraphUpload(recording.graph, context_.stream()), "bring recorded work to the GPU");
  }
  return true;
}

void RecordedLaunches::Record(Recording& recording, const std::function<void()>& work) {
  const FlopCount before = ops_.flops();
  cudaGraph_t captured = nullptr;
  CheckCuda(cudaStreamBeginCapture(context_.stream(), cudaStreamCaptureModeThreadLocal), "begin to record work");
  recording_ = true;
  try {
    work();
    recording_ = false;
  } catch (...) {
    recording_ = false;
    cudaStreamEndCapture(context_.stream(), &captured);
    cudaGraphDestroy(captured);
    throw;
  }
  CheckCuda(cudaStreamEndCapture(context_.stream(), &captured), "record work");
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)> graph(captured,
                                                                                               cudaGraphDestroy);
  ClearByKernels(context_, graph.get());
  CheckCuda(cudaGraphInstantiate(&recording.graph, graph.get(), 0), "make recorded work ready");
  recording.flops = {.matmul = ops_.flops().matmul - before.matmul,
                     .attention = ops_.flops().attention - before.attention,
                     .recomputed = ops_.flops().recomputed - before.recomputed};
}

}  // namespace trireme
