// Seconds that a block waits for its context group. Attention waits for all-gathers and all-to-alls. The messages of
// ring attention travel, on devices with streams, while attention works on the block before: a step of the ring takes
// the longer of the two.
#pragma once

#include <functional>

#include "cost/module_cost.h"
#include "lowering/local_sizes.h"

namespace trireme {

// Seconds of one pass of attention over all keys.
struct AttentionSeconds {
  double forward = 0;
  double backward = 0;
};

struct ContextWait {
  double forward = 0;
  double backward = 0;  // recomputation included
};

// `cost` is that of the block; `seconds` prices traffic of the context group as if nothing overlapped. overlaps: false
// on a host, whose messages take turns with its work.
ContextWait WaitForContext(const LocalSizes& sizes, const ModuleCost& cost, const AttentionSeconds& attention,
                           bool overlaps, const std::function<double(const Traffic&)>& seconds);

}  // namespace trireme
