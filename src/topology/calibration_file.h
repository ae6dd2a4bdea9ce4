// Where `trireme calibrate` leaves what it measured, and where `plan` and `train` look for it.
#pragma once

#include <optional>
#include <string>

#include "topology/cluster.h"

namespace trireme {

// $XDG_CONFIG_HOME/trireme, else ~/.config/trireme; empty where neither variable is set.
std::string CalibrationFolder();

// The file of a machine, by its name ("2 cores of Intel Xeon", "8 x NVIDIA H200"): FOLDER/2-cores-of-intel-xeon.toml.
// Homes are shared between machines, so that each kind has a file of its own. Empty where `folder` is.
std::string CalibrationPath(const std::string& machine, const std::string& folder = CalibrationFolder());

// The calibration of a machine, or none where there is no file. A file that cannot be understood is an Error that says
// to delete it or to calibrate again.
std::optional<Cluster> LoadCalibration(const std::string& machine, const std::string& folder = CalibrationFolder());

}  // namespace trireme
