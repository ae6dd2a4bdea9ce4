// What training does not offer together, whatever the sizes: one list that the start of a run, `plan --layout` and the
// planner's search read.
#pragma once

#include <optional>
#include <string>

#include "run/run_config.h"

namespace trireme {

struct NotOffered {
  std::string reason;   // without values: the same for every layout that it concerns
  std::string message;  // with values, and what to do
};

// The first entry of the list that a config breaks; none when it breaks none.
std::optional<NotOffered> FindNotOffered(const RunConfig& config);

}  // namespace trireme
