// The stream of a CUDA device, for libraries that put their work on it (NCCL).
#pragma once

#include "device/device.h"

namespace trireme {

// The cudaStream_t of the current stream of a device that MakeCudaDevice made: to be asked for each use anew. An Error
// for other devices.
void* CudaStreamOf(Device& device);

}  // namespace trireme
