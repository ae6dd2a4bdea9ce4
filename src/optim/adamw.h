// AdamW over the state that a rank owns: fp32 masters, two moments, decay by parameter role. An fp32 weight is its own
// master; a bf16 weight is its master's upper half, and the lower halves are kept with the moments
// (base/split_float.h). So bf16 masters are whole only while asked for, in the memory of the gradients. Moments are
// fp32 or, at half the memory and bytes moved, bf16 rounded at random (base/stochastic_round.h).
//
// The state (moments, lower halves) lies on the device or in the host's memory, and so may the weights. From there an
// update has them pass through the device in pieces: while one is updated the next one comes and the last one goes, in
// streams of their own.
#pragma once

#include <array>
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
  // 0: the state lies on the device. Otherwise in host memory, and so many elements of it are updated at a time.
  std::int64_t host_piece = 0;
  bool host_weights = false;  // with a host piece: weights too lie in host memory (Device::AllocateHost)
};

class AdamW {
 public:
  // Takes moments and, for bf16 weights, the masters' lower halves (all zeroed) from the arena's optimizer memory;
  // with a host piece from its host memory, and of the optimizer memory two pieces of all that passes through the
  // device. The shards' tensors outlive this.
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
  // Not given where weights are fp32. These three may lie in host memory (Device::AllocateHost).
  const Tensor& low(std::size_t shard) const { return states_[shard].low; }
  const Tensor& first_moment(std::size_t shard) const { return states_[shard].first_moment; }
  const Tensor& second_moment(std::size_t shard) const { return states_[shard].second_moment; }

 private:
  // Of a shard, or of a piece of one. Parts may be missing.
  struct State {
    Tensor weight;  // where it lies in host memory
    Tensor low;
    Tensor first_moment;
    Tensor second_moment;
    State Range(std::int64_t first, std::int64_t count) const;
  };
  // What is updated at once: everything, or a piece whose state comes to the device for it.
  struct Piece {
    State home;     // nothing where all is on the device already
    State passing;  // the part of a slot that holds it during the update
    std::vector<AdamWRange> ranges;
  };

  // Without weights.
  State Allocate(Arena& arena, MemoryKind kind, std::int64_t count) const;
  // Cuts a shard in pieces, each with a slot to pass through.
  void AddPieces(const OwnedShard& shard, const State& state, const std::array<State, 2>& slots);
  // The ranges of a shard that lie in [first, first + count), whose state is `state`.
  std::vector<AdamWRange> RangesOf(const OwnedShard& shard, const State& state, std::int64_t first,
                                   std::int64_t count) const;
  void Move(const State& to, const State& from);

  Device& device_;
  Ops& ops_;
  AdamWOptions options_;
  std::vector<OwnedShard> shards_;
  std::vector<State> states_;
  std::vector<Piece> pieces_;
};

}  // namespace trireme
