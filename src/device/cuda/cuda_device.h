// One GPU, or a share of one: several devices of one process may use the same GPU, each with its own streams, library
// handles and scratch memory. A device must be used by the thread that made it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/event_pool.h"
#include "device/cuda/matmul_cublaslt.h"
#include "device/cuda/recorded_launches.h"
#include "device/device.h"

namespace trireme {

class CudaDevice final : public Device {
 public:
  CudaDevice(int device, const DeviceOptions& options);
  ~CudaDevice() override;

  // The GPU's name and, where cuDNN is too old for attention, that.
  std::string description() const override { return cudnn_note_.empty() ? name_ : name_ + " (" + cudnn_note_ + ")"; }
  bool is_host() const override { return false; }
  void* Allocate(std::int64_t bytes) override;
  void Free(void* memory) override;
  // Page-locked, for every GPU of the machine: kernels reach it at the same address.
  void* AllocateHost(std::int64_t bytes) override;
  void FreeHost(void* memory) override;
  void CopyToHost(void* host, const void* device, std::int64_t bytes) override;
  void CopyFromHost(void* device, const void* host, std::int64_t bytes) override;
  void Synchronize() override;
  Ops& ops() override { return ops_; }
  Event RecordEvent() override;
  void StreamWait(const Event& event) override;
  void SynchronizeEvent(const Event& event) override;
  bool IsReached(const Event& event) override;
  Event OnStream(int stream, const Event& after, const std::function<void()>& work) override;
  void Repeat(std::int64_t key, const std::function<void()>& work) override { launches_.Repeat(key, work); }
  bool Record(std::int64_t key, const std::function<void()>& work) override { return launches_.Prepare(key, work); }
  void set_repeat_records(bool records) override { launches_.set_repeat_records(records); }
  int current_stream() const override { return context_.current_stream(); }
  void* native_stream() const override { return context_.stream(); }
  bool IsRecording() const override { return launches_.recording(); }
  void ForgetRepeats() override { launches_.Clear(); }
  std::string choices() const override { return ops_.matmul().Choices(); }
  void ReadChoices(const std::string& lines) override { ops_.matmul().ReadChoices(lines); }
  // Scratch memory and tables; the CUDA context and the libraries' own memory are not known here.
  std::int64_t internal_bytes() const override { return context_.bytes(); }
  std::int64_t memory_bytes() const override { return memory_bytes_; }
  std::int64_t used_bytes() const override;
  double peak_flops(DType dtype) const override;

 private:
  // Small pieces are kept when they are freed, and given out again: cudaFree waits for the whole GPU, also for
  // collectives that other ranks have in progress on it.
  struct SmallPiece {
    std::int64_t bytes = 0;
    bool free = false;
  };
  static constexpr std::int64_t kSmallBytes = std::int64_t{16} << 20;

  std::map<void*, SmallPiece> small_;
  CudaContext context_;
  CudaOps ops_;
  RecordedLaunches launches_{context_, ops_};
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  std::string name_;
  std::string cudnn_note_;
  std::int64_t memory_bytes_ = 0;
};

}  // namespace trireme
