#include "measure/cpu_model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>

namespace trireme {
namespace {

struct ArmPart {
  int implementer;
  int part;
  const char* name;
};

// Numbers from the makers' reference manuals (MIDR_EL1).
constexpr ArmPart kArmParts[] = {
    {0x41, 0xd03, "Arm Cortex-A53"},  {0x41, 0xd08, "Arm Cortex-A72"},  {0x41, 0xd0b, "Arm Cortex-A76"},
    {0x41, 0xd0c, "Arm Neoverse-N1"}, {0x41, 0xd40, "Arm Neoverse-V1"}, {0x41, 0xd49, "Arm Neoverse-N2"},
    {0x41, 0xd4f, "Arm Neoverse-V2"}, {0x41, 0xd8e, "Arm Neoverse-N3"}, {0x46, 0x001, "Fujitsu A64FX"},
    {0xc0, 0xac3, "Ampere-1"},        {0xc0, 0xac4, "Ampere-1a"},
};

// The first value of each key.
std::map<std::string, std::string> ReadCpuInfo(const std::string& root) {
  std::map<std::string, std::string> values;
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    const std::size_t end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (colon == std::string::npos || colon == 0 || end == std::string::npos) {
      continue;
    }
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    values.try_emplace(line.substr(0, end + 1), begin == std::string::npos ? "" : line.substr(begin));
  }
  return values;
}

}  // namespace

std::string CpuModel(const std::string& root) {
  const std::map<std::string, std::string> values = ReadCpuInfo(root);
  if (const auto name = values.find("model name"); name != values.end()) {
    return name->second;
  }
  const auto implementer = values.find("CPU implementer");
  const auto part = values.find("CPU part");
  if (implementer == values.end() || part == values.end()) {
    return "unknown";
  }
  const int implementer_number = static_cast<int>(std::strtol(implementer->second.c_str(), nullptr, 16));
  const int part_number = static_cast<int>(std::strtol(part->second.c_str(), nullptr, 16));
  for (const ArmPart& known : kArmParts) {
    if (known.implementer == implementer_number && known.part == part_number) {
      return known.name;
    }
  }
  return fmt::format("ARM implementer {:#x}, part {:#x}", implementer_number, part_number);
}

}  // namespace trireme
