// The processor's name as people know it.
#pragma once

#include <string>

namespace trireme {

// From `root`/proc/cpuinfo: "Intel(R) Xeon(R) Platinum 8481C", "Arm Neoverse-N1". ARM processors give numbers only;
// those of common server cores are known here, others are given as numbers.
std::string CpuModel(const std::string& root = "");

}  // namespace trireme
