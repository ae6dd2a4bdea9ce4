#include <sys/auxv.h>

#include "device/cpu/cpu_level.h"

namespace trireme {

std::vector<CpuLevel> DetectCpuLevels() {
  // Bits of Linux's AT_HWCAP and AT_HWCAP2; older kernel headers lack some of the names.
  constexpr unsigned long kAes = 1UL << 3;
  constexpr unsigned long kSve = 1UL << 22;
  constexpr unsigned long kInt8Matrix = 1UL << 13;
  constexpr unsigned long kBFloat16 = 1UL << 14;
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  std::vector<CpuLevel> levels;
  // Highway's NEON target includes AES.
  if ((first & kAes) == 0) {
    return levels;
  }
  levels.push_back(CpuLevel::kNeon);
  if ((second & kInt8Matrix) != 0 && (second & kBFloat16) != 0) {
    levels.push_back(CpuLevel::kNeonBf16);
  }
  if ((first & kSve) != 0) {
    levels.push_back(CpuLevel::kSve);
  }
  return levels;
}

}  // namespace trireme
