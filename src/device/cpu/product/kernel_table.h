// The kernels of this program by instruction level.
#pragma once

#include "device/cpu/cpu_level.h"
#include "device/cpu/product/kernel.h"

namespace trireme {

// A level's kernel for fp32 operands; for bf16 and fp16 ones it makes fp32 panels.
ProductKernel FloatKernel(CpuLevel level);
// A level's kernel for bf16 operands: with bf16 instructions where it has them, otherwise FloatKernel. `level` is one
// of CpuLevels().
ProductKernel Bf16Kernel(CpuLevel level);

}  // namespace trireme
