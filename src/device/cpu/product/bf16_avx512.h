#pragma once

#include "device/cpu/product/kernel.h"

namespace trireme {

// Without `store`.
ProductKernel Avx512Bf16Kernel();

}  // namespace trireme
