// Which runs of a site to measure first, by their layouts alone.
#pragma once

#include <vector>

#include "planner/validation/calibration.h"

namespace trireme {

struct Choosable {
  const PricedRun* run = nullptr;
  std::vector<double> slopes;  // Sensitivities()
  TensorWait wait = TensorWait::kNone;
};

// At most `count` of them. First one of each kind whose tensor group may wait, then others: each next one leaves the
// least doubt about all. None has the model and layout of another while there is a new one: a repeat tells of its day,
// not of the machine. `covariance`: what is known, of which each choice takes its part; `noise`: of one run.
std::vector<const PricedRun*> ChooseRuns(const std::vector<Choosable>& runs, int count, double noise,
                                         std::vector<double>& covariance);

}  // namespace trireme
