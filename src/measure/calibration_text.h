// What a calibration found, for people and for programs.
#pragma once

#include <string>

#include "topology/cluster.h"

namespace trireme {

// Some lines. Requires cluster.measured.
std::string CalibrationText(const Cluster& cluster);
// One JSON object; `path` is where the calibration was written. Requires cluster.measured.
std::string CalibrationJson(const Cluster& cluster, const std::string& path);

}  // namespace trireme
