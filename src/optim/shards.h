// What an optimizer is given of a rank: the parts of its buckets that it updates.
#pragma once

#include <vector>

#include "cost/optimizer_plan.h"
#include "ops/tensor.h"

namespace trireme {

// A stretch of an owned shard that belongs to one parameter.
struct UpdatedRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  float weight_decay = 0;
  float rate = 1;  // of the learning rate
  OptimizerKind rule = OptimizerKind::kAdamW;
  int row = -1;                    // of the ParameterTable
  std::int64_t slice_first = 0;    // its first element within the rank's slice of the parameter
  std::int64_t first_moment = -1;  // offset within the shard's moments; below 0: `first`
  std::int64_t second_moment = -1;
};

// The part of one bucket that this rank updates.
struct OwnedShard {
  Tensor weight;    // working type
  Tensor gradient;  // fp32
  std::vector<UpdatedRange> ranges;
  // Elements of each moment; below 0: as many as weights.
  std::int64_t first_moments = -1;
  std::int64_t second_moments = -1;
};

// Where the shards come from.
struct ShardedState {
  const ShardPlan& shards;
  const ParameterTable& table;
  int zero = 0;
};

}  // namespace trireme
