// Tensors of any working type as fp32 on the host.
#pragma once

#include <vector>

#include "device/device.h"
#include "ops/tensor.h"

namespace trireme {

// fp32, bf16 or fp16. Waits for the device's work on the tensor.
std::vector<float> FloatsOnHost(Device& device, const Tensor& tensor);

}  // namespace trireme
