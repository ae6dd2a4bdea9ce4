// A step whose numbers are suspicious, computed again before its update: in place, then with every batch on another
// data rank. What changes in place was a passing fault, what changes with the place is a lasting one, what stays is the
// data.
#pragma once

#include <functional>

#include "train/rank_parts.h"
#include "train/step_result.h"

namespace trireme {

enum class BatchPlace : std::uint8_t { kOwn, kNextDataRank };

// Computes the gradients and numbers of a step into a result, whose first sample and batch stay, and returns the factor
// that unscales the gradients.
using ComputeStep = std::function<double(StepResult& into, BatchPlace place)>;

// Sets the verdict; the numbers of `result` and the gradients become those that count, and the factor that unscales
// them is returned. `first`: the step's first sample. Collective over the world.
double Rerun(RankParts& parts, StepResult& result, std::int64_t first, int micro_batches, const ComputeStep& compute);

}  // namespace trireme
