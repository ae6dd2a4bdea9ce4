#include "device/device.h"

#include <cstdlib>

#include "base/error.h"
#include "device/host_memory.h"

namespace trireme {

void* Device::AllocateHost(std::int64_t bytes) {
  Require(bytes >= 0, "cannot allocate {} bytes", bytes);
  // A pointer even for zero bytes: a Tensor counts as given when its data is not null.
  void* memory = AllocatePages(bytes);
  Require(memory != nullptr, "the host has no {} bytes of memory left", bytes);
  return memory;
}

void Device::FreeHost(void* memory) { std::free(memory); }

Event Device::OnStream(int /*stream*/, const Event& /*after*/, const std::function<void()>& work) {
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
