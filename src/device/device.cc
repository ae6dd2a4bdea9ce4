#include "device/device.h"

#include <chrono>
#include <cstdlib>
#include <thread>

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

double Device::Now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Device::Pause(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

void Device::Repeat(std::int64_t /*key*/, const std::function<void()>& work) { work(); }

bool IsHostDevice(const std::string& kind) { return kind == "cpu" || (kind == "auto" && CudaDeviceCount() == 0); }

void RequireDevice(const std::string& kind) {
  Require(kind == "auto" || kind == "cpu" || kind == "cuda",
          "unknown device '{}': it is auto, cpu or cuda; paced is for training alone", kind);
  if (kind == "cuda" && CudaDeviceCount() == 0) {
    MakeCudaDevice({.kind = kind});
  }
}

std::unique_ptr<Device> MakeDevice(const DeviceOptions& options) {
  if (options.kind == "paced") {
    return MakePacedDevice(options);
  }
  RequireDevice(options.kind);
  return IsHostDevice(options.kind) ? MakeCpuDevice(options) : MakeCudaDevice(options);
}

}  // namespace trireme
