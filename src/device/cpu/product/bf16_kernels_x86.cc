#include "device/cpu/product/bf16_amx.h"
#include "device/cpu/product/bf16_avx512.h"
#include "device/cpu/product/bf16_kernels.h"

namespace trireme {

std::optional<ProductKernel> NativeBf16Kernel(CpuLevel level) {
  switch (level) {
    case CpuLevel::kAvx512Bf16:
      return Avx512Bf16Kernel();
    case CpuLevel::kAmx:
      return AmxBf16Kernel();
    case CpuLevel::kPortable:
    case CpuLevel::kAvx2:
    case CpuLevel::kAvx512:
    case CpuLevel::kNeon:
    case CpuLevel::kNeonBf16:
    case CpuLevel::kSve:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace trireme
