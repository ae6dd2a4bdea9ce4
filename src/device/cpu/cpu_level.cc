#include "device/cpu/cpu_level.h"

#include <fmt/ranges.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::pair<CpuLevel, std::string_view> kNames[] = {
    {CpuLevel::kPortable, "portable"},     {CpuLevel::kAvx2, "avx2"}, {CpuLevel::kAvx512, "avx512"},
    {CpuLevel::kAvx512Bf16, "avx512bf16"}, {CpuLevel::kAmx, "amx"},   {CpuLevel::kNeon, "neon"},
    {CpuLevel::kNeonBf16, "neonbf16"},     {CpuLevel::kSve, "sve"},
};

// Highway's target of a level: 0 for the baseline.
std::int64_t HighwayTarget(CpuLevel level) {
  constexpr LevelTable<std::int64_t> kTargets{0, HWY_AVX2, HWY_AVX3, HWY_NEON, HWY_SVE};
  return kTargets.of(level);
}

}  // namespace

std::string_view NameOf(CpuLevel level) {
  return std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& row) { return row.first == level; })
      ->second;
}

std::vector<CpuLevel> CpuLevels() {
  std::vector<CpuLevel> levels{CpuLevel::kPortable};
  for (const CpuLevel level : DetectCpuLevels()) {
    if ((HighwayTarget(level) & HWY_TARGETS) != 0) {
      levels.push_back(level);
    }
  }
  return levels;
}

CpuLevel ChosenCpuLevel() {
  const std::vector<CpuLevel> levels = CpuLevels();
  const char* wanted = std::getenv("TRIREME_CPU_LEVEL");
  if (wanted == nullptr || *wanted == '\0') {
    return levels.back();
  }
  const auto found =
      std::find_if(levels.begin(), levels.end(), [&](CpuLevel level) { return NameOf(level) == wanted; });
  std::vector<std::string_view> names;
  std::transform(levels.begin(), levels.end(), std::back_inserter(names), NameOf);
  Require(found != levels.end(), "TRIREME_CPU_LEVEL={} does not run here; this machine has {}", wanted,
          fmt::join(names, ", "));
  return *found;
}

}  // namespace trireme
