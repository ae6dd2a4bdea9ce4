// NVML belongs to the driver: it is opened at run time, and a machine without it has no counters.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <array>

#include "device/device.h"
#include "device/energy.h"

namespace trireme {
namespace {

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    Find(start_, "nvmlInit_v2");
    Find(handle_, "nvmlDeviceGetHandleByPciBusId_v2");
    Find(energy_, "nvmlDeviceGetTotalEnergyConsumption");
    ready_ = start_ != nullptr && handle_ != nullptr && energy_ != nullptr && start_() == 0;
  }

  // Millijoules since the driver was loaded; false where the GPU does not count.
  bool Read(const char* bus, unsigned long long& millijoules) const {
    void* device = nullptr;
    return ready_ && handle_(bus, &device) == 0 && energy_(device, &millijoules) == 0;
  }

 private:
  template <typename Function>
  void Find(Function& function, const char* name) {
    function = library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_;  // kept open until the program ends
  int (*start_)() = nullptr;
  int (*handle_)(const char*, void**) = nullptr;
  int (*energy_)(void*, unsigned long long*) = nullptr;
  bool ready_ = false;
};

}  // namespace

std::vector<EnergyCounter> ReadGpuEnergy() {
  static const Nvml nvml;
  std::vector<EnergyCounter> counters;
  for (int device = 0; device < CudaDeviceCount(); ++device) {
    std::array<char, 32> bus{};
    unsigned long long millijoules = 0;
    if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device) == cudaSuccess &&
        nvml.Read(bus.data(), millijoules)) {
      counters.push_back({.name = bus.data(), .joules = static_cast<double>(millijoules) * 1e-3, .range = 0});
    }
  }
  return counters;
}

}  // namespace trireme
