// Kernels for bf16 instructions, each in a file that is compiled for them and called on machines that have them alone.
// Which of the files a build has is CMake's choice: it gives one of the three implementations of Bf16KernelOf.
#pragma once

#include <optional>

#include "device/cpu/cpu_level.h"
#include "device/cpu/product/kernel.h"

namespace trireme {

// Without `store`; none where the level has no such instructions or the build no such file.
std::optional<ProductKernel> NativeBf16Kernel(CpuLevel level);

}  // namespace trireme
