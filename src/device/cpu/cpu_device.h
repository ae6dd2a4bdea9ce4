// The host as a device: aligned heap memory, copies as memcpy, operations that are done when they return.
#pragma once

#include <memory>
#include <string>

#include "device/cpu/cpu_ops.h"
#include "device/device.h"

namespace trireme {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options);

  std::string description() const override { return ops_->description(); }
  bool is_host() const override { return true; }
  void* Allocate(std::int64_t bytes) override { return AllocateHost(bytes); }
  void Free(void* memory) override { FreeHost(memory); }
  void CopyToHost(void* host, const void* device, std::int64_t bytes) override;
  void CopyFromHost(void* device, const void* host, std::int64_t bytes) override;
  void Synchronize() override {}
  Ops& ops() override { return *ops_; }
  void set_spare_bytes(std::int64_t bytes) override { ops_->set_spare_bytes(bytes); }
  std::int64_t internal_bytes() const override { return ops_->internal_bytes(); }
  std::int64_t memory_bytes() const override;
  // The engines of products: "engines fp32=packed bf16=onednn".
  std::string choices() const override;
  void ReadChoices(const std::string& lines) override;
  std::string substitutions() const override { return Substitutions(ops_->asked_engines(), ops_->engines()); }
  double peak_flops(DType) const override { return 0; }

 private:
  std::unique_ptr<HostOps> ops_;
  bool engines_were_chosen_;
};

}  // namespace trireme
