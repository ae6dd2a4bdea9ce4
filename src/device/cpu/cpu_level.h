// Instruction levels of CPUs. The kernels of device/cpu are compiled once per level and chosen at run time, so one
// program runs on every machine of its architecture. Each level includes the ones before it on the same architecture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class CpuLevel : std::uint8_t {
  kPortable,  // the architecture's baseline: SSE2, or NEON as the compiler uses it
  kAvx2,      // with FMA
  kAvx512,    // F, BW, DQ, VL
  kAvx512Bf16,
  kAmx,  // tiles of bf16
  kNeon,
  kNeonBf16,  // with bf16 and i8mm matrix instructions
  kSve,
};

// "portable", "avx2", "avx512", "avx512bf16", "amx", "neon", "neonbf16", "sve".
std::string_view NameOf(CpuLevel level);

// The levels that this machine runs and this program contains, lowest first; never empty.
// AMX needs the operating system's permission: asks for it, for the whole process.
std::vector<CpuLevel> CpuLevels();

// The highest of CpuLevels(), or the one that the environment variable TRIREME_CPU_LEVEL names.
// Throws when that is unknown or does not run here.
CpuLevel ChosenCpuLevel();

// One entry (a function, say) per target that Highway compiles a file for; empty ones count as `portable`. Fill it with
// HWY_STATIC_DISPATCH(F), HWY_CHOOSE_AVX2(F), HWY_CHOOSE_AVX3(F), HWY_CHOOSE_NEON(F), HWY_CHOOSE_SVE(F).
template <typename Function>
struct LevelTable {
  Function portable{};
  Function avx2{};
  Function avx512{};
  Function neon{};
  Function sve{};

  Function of(CpuLevel level) const {
    switch (level) {
      case CpuLevel::kAvx2:
        return avx2 != Function{} ? avx2 : portable;
      case CpuLevel::kAvx512:
      case CpuLevel::kAvx512Bf16:
      case CpuLevel::kAmx:
        return avx512 != Function{} ? avx512 : portable;
      case CpuLevel::kNeon:
      case CpuLevel::kNeonBf16:
        return neon != Function{} ? neon : portable;
      case CpuLevel::kSve:
        return sve != Function{} ? sve : portable;
      case CpuLevel::kPortable:
        break;
    }
    return portable;
  }
};

// Levels beyond the baseline that the processor and the operating system offer. One source file per architecture.
std::vector<CpuLevel> DetectCpuLevels();

}  // namespace trireme
