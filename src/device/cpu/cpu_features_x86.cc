#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/cpu/cpu_level.h"

namespace trireme {
namespace {

// Linux gives a process the tile registers on request (arch_prctl ARCH_REQ_XCOMP_PERM, since 5.16).
bool TilesGranted() {
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
  __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
  constexpr unsigned int kAmxBf16 = 1U << 22;
  constexpr unsigned int kAmxTile = 1U << 24;
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

std::vector<CpuLevel> DetectCpuLevels() {
  // __builtin_cpu_supports also asks whether the operating system saves the registers.
  __builtin_cpu_init();
  std::vector<CpuLevel> levels;
  if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))) {
    return levels;
  }
  levels.push_back(CpuLevel::kAvx2);
  if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))) {
    return levels;
  }
  levels.push_back(CpuLevel::kAvx512);
  if (!__builtin_cpu_supports("avx512bf16")) {
    return levels;
  }
  levels.push_back(CpuLevel::kAvx512Bf16);
  if (TilesGranted()) {
    levels.push_back(CpuLevel::kAmx);
  }
  return levels;
}

}  // namespace trireme
