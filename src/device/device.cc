#include "device/device.h"

#include "base/error.h"

namespace trireme {

Moment Device::Beside(int /*lane*/, const Moment& /*after*/, const std::function<void()>& work) {
  work();
  return nullptr;
}

void Device::Repeat(std::int64_t /*key*/, const std::function<void()>& work) { work(); }

std::unique_ptr<Device> MakeDevice(const DeviceOptions& options) {
  if (options.kind == "cpu") {
    return MakeCpuDevice(options);
  }
  if (options.kind == "cuda") {
    return MakeCudaDevice(options);
  }
  Require(options.kind == "auto", "unknown device '{}': it is auto, cpu or cuda", options.kind);
  return CudaDeviceCount() > 0 ? MakeCudaDevice(options) : MakeCpuDevice(options);
}

}  // namespace trireme
