#include "base/error.h"
#include "device/device.h"
#include "device/energy.h"
#include "device/gpu_info.h"

namespace trireme {

std::unique_ptr<Device> MakeCudaDevice(const DeviceOptions&) {
  Fail("device 'cuda': this program was not built with CUDA (TRIREME_CUDA)");
}

int CudaDeviceCount() { return 0; }

CudaFacts DescribeCuda() { return {}; }

std::vector<EnergyCounter> ReadGpuEnergy() { return {}; }

}  // namespace trireme
