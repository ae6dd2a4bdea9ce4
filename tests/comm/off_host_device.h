// The CPU under the name of an accelerator, so that the ways communicators take for one are tested where there is none.
#pragma once

#include <memory>

#include "device/cpu_double.h"

namespace trireme {

class OffHostDevice : public CpuDouble {
 public:
  bool is_host() const override { return false; }
  void CopyToHost(void* host, const void* device, std::int64_t bytes) override {
    ++copies;
    CpuDouble::CopyToHost(host, device, bytes);
  }
  void CopyFromHost(void* device, const void* host, std::int64_t bytes) override {
    ++copies;
    CpuDouble::CopyFromHost(device, host, bytes);
  }
  // A point that counts as reached at once, since the CPU is never behind.
  Event RecordEvent() override {
    ++events;
    return std::make_shared<int>(events);
  }
  void StreamWait(const Event& event) override { waits += event != nullptr ? 1 : 0; }

  int copies = 0;
  int events = 0;
  int waits = 0;
};

}  // namespace trireme
