#include "device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <cstring>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "device/host_memory.h"

namespace trireme {
namespace {

constexpr std::string_view kEnginesLine = "engines ";

}  // namespace

CpuDevice::CpuDevice(const DeviceOptions& options)
    : ops_(MakeCpuOps(ChosenCpuLevel(), options.threads, EngineTable::Parse(options.engines))),
      engines_were_chosen_(static_cast<bool>(options.choose_engines)) {}

std::string CpuDevice::choices() const { return fmt::format("{}{}\n", kEnginesLine, ops_->engines().ToString()); }

void CpuDevice::ReadChoices(const std::string& lines) {
  std::istringstream text(lines);
  for (std::string line; engines_were_chosen_ && std::getline(text, line);) {
    if (line.starts_with(kEnginesLine)) {
      ops_->set_engines(EngineTable::Parse(line.substr(kEnginesLine.size())));
    }
  }
}

void CpuDevice::CopyToHost(void* host, const void* device, std::int64_t bytes) {
  if (bytes > 0) {
    std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
}

void CpuDevice::CopyFromHost(void* device, const void* host, std::int64_t bytes) { CopyToHost(device, host, bytes); }

std::int64_t CpuDevice::memory_bytes() const { return HostMemoryBytes(); }

std::unique_ptr<Device> MakeCpuDevice(const DeviceOptions& options) {
  Require(options.threads >= 1, "a CPU device needs at least 1 thread, not {}", options.threads);
  return std::make_unique<CpuDevice>(options);
}

}  // namespace trireme
