#include "device/cpu/cpu_level.h"

namespace trireme {

std::vector<CpuLevel> DetectCpuLevels() { return {}; }

}  // namespace trireme
