// A run that several processes start together: what one of them alone can see (its machine's memory, a folder that is
// another job's) must keep all of them from starting, and end them as unusable input does, not as a failure.
#pragma once

#include <functional>
#include <string>

#include "comm/rank_runner.h"

namespace trireme {

struct JointRefusal {
  bool refused = false;  // the same on every rank
  std::string reason;    // on the lowest rank that refuses; empty on all others
};

// Collective over the world. Calls `check` on every rank; an Error on any of them refuses on all. Returns when all have
// checked, so that no rank goes on while another may still refuse. A `check` that is itself collective throws, if at
// all, after its collectives or on every rank before them.
JointRefusal RefusedByAny(RankContext& context, const std::function<void()>& check);

}  // namespace trireme
