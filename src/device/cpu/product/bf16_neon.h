#pragma once

#include "device/cpu/product/kernel.h"

namespace trireme {

// Without `store`.
ProductKernel NeonBf16Kernel();

}  // namespace trireme
