// Work that is started again and again, as CUDA graphs: one call starts all its kernels. See Device::Repeat.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "device/cuda/cuda_context.h"
#include "device/ops.h"

namespace trireme {

class RecordedLaunches {
 public:
  // Both outlive this.
  RecordedLaunches(CudaContext& context, Ops& ops) : context_(context), ops_(ops) {}
  ~RecordedLaunches();
  RecordedLaunches(const RecordedLaunches&) = delete;
  RecordedLaunches& operator=(const RecordedLaunches&) = delete;

  // The first call of a key runs `work` plainly, since it may measure algorithms and take scratch memory; the second
  // one records.
  void Repeat(std::int64_t key, const std::function<void()>& work);
  // Device::Record.
  bool Prepare(std::int64_t key, const std::function<void()>& work);
  void set_repeat_records(bool records) { repeat_records_ = records; }
  // Drops all recordings, after the current stream's work.
  void Clear();
  // Within `work`: it is being recorded.
  bool recording() const { return recording_; }

 private:
  struct Recording {
    cudaGraphExec_t graph = nullptr;
    FlopCount flops;
    std::int64_t generation = -1;  // of the context when `work` last ran plainly
  };
  void Record(Recording& recording, const std::function<void()>& work);
  void Forget(Recording& recording);

  CudaContext& context_;
  Ops& ops_;
  std::map<std::int64_t, Recording> recordings_;
  bool recording_ = false;
  bool repeat_records_ = true;
};

}  // namespace trireme
