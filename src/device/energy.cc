#include "device/energy.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

constexpr double kMicro = 1e-6;

// A number of a file; negative when it cannot be read.
double NumberOf(const std::filesystem::path& path) {
  std::ifstream file(path);
  double value = -1;
  return file >> value ? value : -1;
}

bool IsPackage(const std::filesystem::path& zone) {
  std::ifstream file(zone / "name");
  std::string name;
  return file >> name && name.starts_with("package");
}

}  // namespace

std::vector<EnergyCounter> ReadHostEnergy(const std::string& powercap) {
  std::vector<EnergyCounter> counters;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(powercap, missing)) {
    const double micro_joules = IsPackage(entry.path()) ? NumberOf(entry.path() / "energy_uj") : -1;
    if (micro_joules >= 0) {
      counters.push_back({.name = entry.path().filename().string(),
                          .joules = micro_joules * kMicro,
                          .range = std::max(NumberOf(entry.path() / "max_energy_range_uj"), 0.0) * kMicro});
    }
  }
  std::sort(counters.begin(), counters.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return counters;
}

void EnergySum::Add(const std::vector<EnergyCounter>& now) {
  for (const EnergyCounter& counter : now) {
    const auto before = std::find_if(last_.begin(), last_.end(), [&](const auto& c) { return c.name == counter.name; });
    if (before != last_.end()) {
      const double grown = counter.joules - before->joules;
      joules_ += grown >= 0 ? grown : std::max(grown + counter.range, 0.0);
    }
  }
  last_ = now;
}

}  // namespace trireme
