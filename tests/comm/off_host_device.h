// The CPU under the name of an accelerator, so that the ways communicators take for one are tested where there is none.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace trireme {

class OffHostDevice : public Device {
 public:
  std::string description() const override { return "cpu, as if elsewhere"; }
  bool is_host() const override { return false; }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* memory) override { cpu_->Free(memory); }
  void CopyToHost(void* host, const void* device, std::int64_t bytes) override {
    ++copies;
    cpu_->CopyToHost(host, device, bytes);
  }
  void CopyFromHost(void* device, const void* host, std::int64_t bytes) override {
    ++copies;
    cpu_->CopyFromHost(device, host, bytes);
  }
  void Synchronize() override {}
  // A point that counts as reached at once, since the CPU is never behind.
  Moment Now() override {
    ++moments;
    return std::make_shared<int>(moments);
  }
  void StartAfter(const Moment& moment) override { waits += moment != nullptr ? 1 : 0; }
  Ops& ops() override { return cpu_->ops(); }
  std::int64_t internal_bytes() const override { return 0; }
  std::int64_t memory_bytes() const override { return 0; }
  double peak_flops(DType) const override { return 0; }

  int copies = 0;
  int moments = 0;
  int waits = 0;

 private:
  std::unique_ptr<Device> cpu_ = MakeCpuDevice({.kind = "cpu"});
};

}  // namespace trireme
