// The one stream of a CUDA device, for libraries that put their work on it (NCCL).
#pragma once

#include "device/device.h"

namespace trireme {

// The cudaStream_t of a device that MakeCudaDevice made; valid as long as the device. An Error for other devices.
void* CudaStreamOf(Device& device);

}  // namespace trireme
