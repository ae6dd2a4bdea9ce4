// What this machine lacks for Trireme, each with the command that brings it.
#pragma once

#include <string>
#include <vector>

#include "measure/machine.h"

namespace trireme {

// Reads report.libraries, pages, limits, memory and GPUs, and looks for programs in PATH. Package names are those of
// the distribution that `root`/etc/os-release names (Debian and its kin, Rocky and its kin).
std::vector<Missing> FindMissing(const MachineReport& report, const std::string& root = "");

}  // namespace trireme
