#include "device/cpu/product/bf16_kernels.h"

namespace trireme {

std::optional<ProductKernel> NativeBf16Kernel(CpuLevel) { return std::nullopt; }

}  // namespace trireme
