#include "base/error.h"
#include "device/device.h"

namespace trireme {

std::unique_ptr<Device> MakeCudaDevice(const DeviceOptions&) {
  Fail("device 'cuda': this program was not built with CUDA (TRIREME_CUDA)");
}

int CudaDeviceCount() { return 0; }

}  // namespace trireme
