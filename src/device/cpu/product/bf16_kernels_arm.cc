#include <algorithm>

#include "device/cpu/product/bf16_kernels.h"
#include "device/cpu/product/bf16_neon.h"

namespace trireme {

std::optional<ProductKernel> NativeBf16Kernel(CpuLevel level) {
  // Processors with SVE may have bf16 or not.
  const std::vector<CpuLevel> levels = CpuLevels();
  const bool has_bf16 = std::find(levels.begin(), levels.end(), CpuLevel::kNeonBf16) != levels.end();
  if (has_bf16 && (level == CpuLevel::kNeonBf16 || level == CpuLevel::kSve)) {
    return NeonBf16Kernel();
  }
  return std::nullopt;
}

}  // namespace trireme
