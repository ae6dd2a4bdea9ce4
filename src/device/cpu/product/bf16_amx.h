#pragma once

#include "device/cpu/product/kernel.h"

namespace trireme {

// Without `store`.
ProductKernel AmxBf16Kernel();

}  // namespace trireme
