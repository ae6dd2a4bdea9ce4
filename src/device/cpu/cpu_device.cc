#include "device/cpu/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace trireme {

CpuDevice::CpuDevice(const DeviceOptions& options) : ops_(options.threads) {}

void* CpuDevice::Allocate(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 256;
  Require(bytes >= 0, "cannot allocate {} bytes", bytes);
  // A pointer even for zero bytes: a Tensor counts as given when its data is not null.
  const std::int64_t rounded = RoundUp(std::max<std::int64_t>(bytes, 1), kAlignment);
  void* memory = std::aligned_alloc(kAlignment, static_cast<std::size_t>(rounded));
  Require(memory != nullptr, "the host has no {} bytes of memory left", rounded);
  return memory;
}

void CpuDevice::Free(void* memory) { std::free(memory); }

void CpuDevice::CopyToHost(void* host, const void* device, std::int64_t bytes) {
  if (bytes > 0) {
    std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
}

void CpuDevice::CopyFromHost(void* device, const void* host, std::int64_t bytes) { CopyToHost(device, host, bytes); }

std::int64_t CpuDevice::memory_bytes() const { return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE); }

std::unique_ptr<Device> MakeCpuDevice(const DeviceOptions& options) {
  Require(options.threads >= 1, "a CPU device needs at least 1 thread, not {}", options.threads);
  return std::make_unique<CpuDevice>(options);
}

}  // namespace trireme
