// Checks of what ranks hold, for a run that doubts its numbers. Collective over the world unless it says otherwise;
// every rank gets the same.
#pragma once

#include <cstdint>
#include <string>

#include "train/rank_parts.h"

namespace trireme {

// After a step that was skipped, before anything takes the gradients' memory (JoinState) or loads another batch.
// "rank 3: gradient of 'blocks.1.mlp.up.weight' …": the parameter that backward reached first, of those whose reduced
// gradient is not finite, and the lowest rank that owns a part of it; or the ranks whose loss is not finite.
std::string NameNonFinite(RankParts& parts);
// Elements of the whole gradient that are 0.
std::int64_t CountZeros(RankParts& parts);
// An Error when data ranks that must hold equal weights do not; it names `step` and the ranks. Collective over the data
// group.
void CompareReplicas(RankParts& parts, std::int64_t step);

}  // namespace trireme
