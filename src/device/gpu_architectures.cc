#include "device/gpu_architectures.h"

#include <cstdlib>
#include <sstream>

namespace trireme {
namespace {

bool RunsOn(const std::string& architecture, int capability) {
  char* suffix = nullptr;
  const auto built = static_cast<int>(std::strtol(architecture.c_str(), &suffix, 10));
  if (built <= 0 || capability < built) {
    return false;
  }
  if (*suffix == 'a') {
    return capability == built;
  }
  const bool has_ptx = *suffix != 'f' && std::string(suffix) != "-real";
  const bool has_code = std::string(suffix) != "-virtual";
  return has_ptx || (has_code && built / 10 == capability / 10);
}

}  // namespace

bool HasKernelsFor(const std::string& built_for, int capability) {
  std::istringstream list(built_for);
  for (std::string architecture; std::getline(list, architecture, ',');) {
    if (RunsOn(architecture, capability)) {
      return true;
    }
  }
  return false;
}

}  // namespace trireme
