// AdamW over the state that a rank owns: fp32 masters and moments, decay by parameter role.
#pragma once

#include <vector>

#include "device/arena.h"
#include "device/ops.h"

namespace trireme {

// A stretch of an owned shard with one decay.
struct DecayRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool decays = false;
};

// The part of one bucket that this rank updates.
struct OwnedShard {
  Tensor weight;    // working type
  Tensor gradient;  // fp32
  std::vector<DecayRange> ranges;
};

struct AdamWOptions {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
};

class AdamW {
 public:
  // Takes moments (zeroed) and, unless weights are fp32 and so their own masters, masters from the arena's optimizer
  // memory. The shards' tensors outlive this.
  AdamW(Arena& arena, const AdamWOptions& options, std::vector<OwnedShard> shards);

  // One update; `step` counts from 1. Gradients are multiplied by gradient_scale first.
  void Step(float learning_rate, float gradient_scale, std::int64_t step);
  // Writes the masters to the weights, rounding: after masters were set from outside.
  void PublishMasters();

  const Tensor& master(std::size_t shard) const { return masters_[shard]; }
  const Tensor& first_moment(std::size_t shard) const { return first_moments_[shard]; }
  const Tensor& second_moment(std::size_t shard) const { return second_moments_[shard]; }

 private:
  Ops& ops_;
  AdamWOptions options_;
  std::vector<OwnedShard> shards_;
  std::vector<Tensor> masters_;
  std::vector<Tensor> first_moments_;
  std::vector<Tensor> second_moments_;
  std::vector<AdamWRange> ranges_;
};

}  // namespace trireme
