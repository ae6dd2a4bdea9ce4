// A device that computes nothing: every operation takes the time that a PacedCluster says, in simulated time. Streams
// and events carry times. Memory is address space that the system backs with pages only where values of a few bytes are
// written (numbers that ranks exchange); all other values read as 0. A plan that exceeds the device's memory is refused
// as on the device.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "device/device.h"
#include "device/paced/paced_clock.h"
#include "device/paced/paced_cluster.h"
#include "device/paced/paced_ops.h"

namespace trireme {

// Values of more bytes than this are neither written nor moved.
inline constexpr std::int64_t kPacedValueBytes = 4096;

class PacedDevice final : public Device {
 public:
  explicit PacedDevice(std::shared_ptr<const PacedCluster> cluster);
  ~PacedDevice() override;

  std::string description() const override { return "paced: " + cluster_->name(); }
  bool is_host() const override { return false; }
  bool is_paced() const override { return true; }
  void* Allocate(std::int64_t bytes) override;
  void Free(void* memory) override;
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
  int current_stream() const override { return clock_.current(); }
  // What the host and the compute stream have reached.
  double Now() const override { return std::max(clock_.host(), clock_.stream(kComputeStream)); }
  void Pause(double seconds) override { clock_.Operate(0, seconds); }

  std::int64_t internal_bytes() const override { return 0; }
  std::int64_t memory_bytes() const override { return cluster_->memory_bytes(); }
  double peak_flops(DType dtype) const override { return cluster_->peak_flops(dtype); }

  PacedClock& clock() { return clock_; }
  const PacedCluster& cluster() const { return *cluster_; }

 private:
  void CopyOverLink(std::int64_t bytes);

  std::shared_ptr<const PacedCluster> cluster_;
  PacedClock clock_;
  std::map<const char*, std::int64_t> on_device_;  // bytes of each allocation
  std::map<const char*, std::int64_t> on_host_;
  std::int64_t used_ = 0;
  PacedOps ops_;
};

}  // namespace trireme
