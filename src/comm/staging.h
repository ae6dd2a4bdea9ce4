// Tensors' contents in host memory, for libraries that cannot reach the device: the tensors themselves on a host
// device, copies otherwise.
#pragma once

#include <functional>

#include "device/device.h"
#include "ops/tensor.h"

namespace trireme {

// Calls `move` with `in` and `out` in host memory, then brings what it wrote into `out` to the device. Either may be
// missing. Where both are one tensor, `move` finds its contents in `out`; otherwise `out` is not read from the device.
// Waits for the device's earlier work where there is something to read.
void StageOnHost(Device& device, const Tensor& in, const Tensor& out,
                 const std::function<void(const Tensor& in, const Tensor& out)>& move);

}  // namespace trireme
