// Where the tensors of ring attention lie in the scratch memory of its step, and what it sends.
#pragma once

#include <array>

#include "base/accounting.h"
#include "lowering/local_sizes.h"
#include "lowering/memory_plan.h"

namespace trireme {

// Two buffers each for what passes by: one is sent on while the other is filled.
struct RingPlan {
  RingPlan(const LocalSizes& sizes, bool backward);

  std::array<Place, 2> kv;  // keys and values of one rank's tokens
  // Forward:
  Place sum;              // fp32: attention over the keys so far
  Place part;             // over one rank's keys
  Place part_statistics;  // likewise
  // Backward:
  std::array<Place, 2> grad_kv;  // fp32: travels with keys and values, and gathers every rank's part
  Place grad_kv_part;
  Place grad_sum;   // fp32, of packed rows
  Place grad_part;  // likewise, of one rank's keys
  std::int64_t bytes = 0;
  Traffic traffic;  // messages of a rank
};

}  // namespace trireme
