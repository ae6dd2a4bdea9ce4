// The numbers of a step or an evaluation that all ranks decide by, and so must agree on: one all-reduce over the world.
#pragma once

#include <array>

#include "train/rank_parts.h"

namespace trireme {

struct StepStats {
  double loss = 0;  // weighted sum
  double weight = 0;
  double squared_norm = 0;  // of the gradients, each element counted once in the world
  int request = 0;          // the largest of the ranks' requests (Trainer::Step)
};

// Statistics of the micro batches that were loaded last. Every rank gets the same. Collective over the world.
StepStats SumStepStats(RankParts& parts, int micro_batches, bool with_gradients, int request = 0);

// This rank's loss and weight, of the last stage.
std::array<double, 2> LossSums(RankParts& parts, int micro_batches);

}  // namespace trireme
