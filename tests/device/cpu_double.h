// For tests: the CPU, as a device of which a test changes what it looks at.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace trireme {

class CpuDouble : public Device {
 public:
  std::string description() const override { return "cpu for a test"; }
  bool is_host() const override { return true; }
  void* Allocate(std::int64_t bytes) override { return cpu_->Allocate(bytes); }
  void Free(void* memory) override { cpu_->Free(memory); }
  void CopyToHost(void* host, const void* device, std::int64_t bytes) override {
    cpu_->CopyToHost(host, device, bytes);
  }
  void CopyFromHost(void* device, const void* host, std::int64_t bytes) override {
    cpu_->CopyFromHost(device, host, bytes);
  }
  void Synchronize() override {}
  Ops& ops() override { return cpu_->ops(); }
  std::int64_t internal_bytes() const override { return 0; }
  std::int64_t memory_bytes() const override { return 0; }
  double peak_flops(DType) const override { return 0; }

 private:
  std::unique_ptr<Device> cpu_ = MakeCpuDevice({.kind = "cpu"});
};

}  // namespace trireme
