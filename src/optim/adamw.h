// AdamW over the state that a rank owns: fp32 masters, two moments, decay by parameter role. An fp32 weight is its own
// master; a bf16 weight is its master's upper half, and the lower halves are kept beside the moments
// (base/split_float.h). So bf16 masters are whole only while asked for, in the memory of the gradients. Moments are
// fp32 or, at half the memory and bytes moved, bf16 rounded at random (base/stochastic_round.h).
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
  DType moments = DType::kFloat32;  // or kBFloat16
};

class AdamW {
 public:
  // Takes moments and, beside bf16 weights, the masters' lower halves (all zeroed) from the arena's optimizer memory.
  // The shards' tensors outlive this.
  AdamW(Arena& arena, const AdamWOptions& options, std::vector<OwnedShard> shards);

  // One update; `step` counts from 1. Gradients are multiplied by gradient_scale first.
  void Step(float learning_rate, float gradient_scale, std::int64_t step);
  // Makes every master() whole. Those of bf16 weights overwrite the gradients, and stay until these are written again.
  void JoinMasters();
  // Weights and lower halves from the masters: after JoinMasters and what was then written to them from outside.
  void PublishMasters();

  // fp32: see JoinMasters.
  const Tensor& master(std::size_t shard) const {
    return low(shard).given() ? shards_[shard].gradient : shards_[shard].weight;
  }
  // Not given where weights are fp32.
  const Tensor& low(std::size_t shard) const { return low_[shard]; }
  const Tensor& first_moment(std::size_t shard) const { return first_moments_[shard]; }
  const Tensor& second_moment(std::size_t shard) const { return second_moments_[shard]; }

 private:
  Ops& ops_;
  AdamWOptions options_;
  std::vector<OwnedShard> shards_;
  std::vector<Tensor> low_;
  std::vector<Tensor> first_moments_;
  std::vector<Tensor> second_moments_;
  std::vector<AdamWRange> ranges_;
};

}  // namespace trireme
