// The space of layouts that law 1 ranges over, a pairwise cover of it, and seeded random draws from it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "run/run_config.h"

namespace trireme::parity {

// One choice of each factor, as an index into its values.
enum Factor {
  kFamily,
  kTensor,
  kPipeline,
  kData,
  kZero,
  kSchedule,
  kSequenceParallel,
  kRecompute,
  kMicroBatches,
  kContext,
  kFactors
};
using Choice = std::array<int, kFactors>;

// Values of each factor: families 3, tensor 1–4, pipeline 1–4, data 1–3, ZeRO 0–3, every schedule, sequence parallel
// off and on, four recompute modes, micro batches 1–8, context 1, 2 by all-gather, 2 by Ulysses, 3 by ring, 4 by
// Ulysses in pairs with a ring across them.
const std::array<int, kFactors>& FactorSizes();
// Within 8 ranks, divisible by tensor and context degrees, and countable for the schedule (chunks need more than one
// stage; interleaved: micro batches a multiple of them).
bool Possible(const Choice& choice);
std::vector<Choice> AllChoices();
// Choices that together hold every pair of factor values that any possible choice holds. Deterministic.
const std::vector<Choice>& PairwiseCover();

RunConfig ConfigOf(const Choice& choice);
// A possible choice, with both dropouts, a norm behind the embedding, masks, z-loss, micro batch, partition,
// offloading of state and of activations, parameters that stay whole, optimizer, grouped heads and ties drawn too.
RunConfig RandomConfig(std::uint64_t seed);
// RandomConfig with more of a recipe's features: plain attention, every optimizer but Lion (whose signs of rounding no
// layout shares), rates by role, PowerSGD at full rank, hybrid sharding, a ramp of the batch. What Validate refuses
// together is left out one by one. Few steps.
RunConfig RandomRecipe(std::uint64_t seed);
// "gpt2_tp2_pp1_dp3_zero1_1f1b_sp_full_m4_cp2": a test's name.
std::string NameOf(const Choice& choice);

}  // namespace trireme::parity
