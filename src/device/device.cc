#include "device/device.h"

#include "base/error.h"

namespace trireme {

Moment Device::Beside(int /*lane*/, const Moment& /*after*/, const std::function<void()>& work) {
  work();
  return nullptr;
}

void Device::Repeat(std::int64_t /*key*/, const std::function<void()>& work) { work(); }

bool IsHostDevice(const std::string& kind) { return kind == "cpu" || (kind == "auto" && CudaDeviceCount() == 0); }

void RequireDevice(const std::string& kind) {
  Require(kind == "auto" || kind == "cpu" || kind == "cuda", "unknown device '{}': it is auto, cpu or cuda", kind);
  if (kind == "cuda" && CudaDeviceCount() == 0) {
    MakeCudaDevice({.kind = kind});
  }
}

std::unique_ptr<Device> MakeDevice(const DeviceOptions& options) {
  RequireDevice(options.kind);
  return IsHostDevice(options.kind) ? MakeCpuDevice(options) : MakeCudaDevice(options);
}

}  // namespace trireme
