// Runs that their software made sick: far slower than predicted while runs with nearly the same layout are not. No
// model explains them, so that no calibration learns from them.
#pragma once

#include <vector>

#include "planner/validation/calibration.h"

namespace trireme {

// By run, whether it is sick. predicted: seconds of each, in the same order; runs without measured seconds are well.
std::vector<bool> FindSick(const std::vector<const PricedRun*>& runs, const std::vector<double>& predicted);

}  // namespace trireme
