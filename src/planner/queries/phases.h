// An allocation whose size changes over time: the best layout of each stretch, and when the training ends.
#pragma once

#include <string>
#include <vector>

#include "planner/queries/training_time.h"
#include "planner/search/search.h"

namespace trireme {

struct Phase {
  int nodes = 0;
  double days = 0;  // 0: until the end
};

struct PhasePlan {
  Phase phase;
  Candidate best;     // seconds 0: nothing fits
  double tokens = 0;  // trained in it
  double days = 0;    // used of it
  double device_hours = 0;
};

// "16:30,48:60,64": nodes and days; the last may leave its days open.
std::vector<Phase> ParsePhases(const std::string& text);
// Fills the phases in order until `tokens` are trained. The request's devices are set from each phase.
std::vector<PhasePlan> PlanPhases(const SearchRequest& request, const std::vector<Phase>& phases, double tokens);
std::string ToText(const std::vector<PhasePlan>& plans, double tokens);

}  // namespace trireme
