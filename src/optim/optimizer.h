// An optimizer over the state that a rank owns: fp32 masters, moments, rate and decay by parameter. What each rule
// keeps, what ZeRO may shard of it and what ranks exchange is described in cost/optimizer_plan.h.
//
// An fp32 weight is its own master; a bf16 weight is its master's upper half, and the lower halves are kept with the
// moments (base/split_float.h). So bf16 masters are whole only while asked for, in the memory of the gradients. Masters
// of fp16 weights are kept whole in place of the lower halves, and handed out the same way. Moments are fp32 or, at
// half the memory and bytes moved, bf16 rounded at random (base/stochastic_round.h).
//
// The state (moments, lower halves) lies on the device or in the host's memory, and so may the weights. From there an
// update has them pass through the device in pieces: while one is updated the next one comes and the last one goes, in
// streams of their own.
//
// AdamW, Lion and SGD update in one pass. Muon and Adafactor first turn the gradient into the direction of the update,
// in place, with what they exchange, and apply it in a second pass.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "comm/grid_comms.h"
#include "cost/optimizer_plan.h"
#include "device/arena.h"
#include "device/ops.h"
#include "optim/adafactor.h"
#include "optim/muon.h"
#include "optim/shards.h"

namespace trireme {

struct OptimizerOptions {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0;  // of parameters that decay, where no plan says more
  float momentum = 0;
  bool nesterov = false;
  bool muon_matches_adamw = true;  // optimizer.muon.adjust
  bool relative_step = false;      // Adafactor's
  bool scale_parameter = true;
  DType moments = DType::kFloat32;  // or kBFloat16
  // 0: the state lies on the device. Otherwise in host memory, and so many elements of it are updated at a time.
  std::int64_t host_piece = 0;
  bool host_weights = false;  // with a host piece: weights too lie in host memory (Device::AllocateHost)
};

// What optimizers that exchange matrices or sums need to know; all of it outlives the optimizer.
struct OptimizerContext {
  GridComms& comms;
  const OptimizerPlan& plan;
  ShardedState sharded;
};

class Optimizer {
 public:
  // Takes moments and, for bf16 and fp16 weights, what is kept of the masters (all zeroed) from the arena's optimizer
  // memory; with a host piece from its host memory, and of the optimizer memory two pieces of all that passes through
  // the device. Then OptimizerPlan::ExtraBytes. The shards' tensors outlive this. Without context: no Muon, no
  // Adafactor.
  Optimizer(Arena& arena, const OptimizerOptions& options, std::vector<OwnedShard> shards,
            const OptimizerContext* context = nullptr);

  // One update; `step` counts from 1. Gradients are multiplied by gradient_scale first, and are gone afterwards.
  // Collective over the ranks of a stage for Muon and Adafactor.
  void Step(float learning_rate, float gradient_scale, std::int64_t step);
  // Makes every master() whole. Those of bf16 and fp16 weights overwrite the gradients, and stay until these are
  // written again.
  void JoinMasters();
  // Weights and lower halves from the masters: after JoinMasters and what was then written to them from outside.
  void PublishMasters();

  const std::vector<OwnedShard>& shards() const { return shards_; }
  // fp32: see JoinMasters.
  const Tensor& master(std::size_t shard) const {
    return low(shard).given() ? shards_[shard].gradient : shards_[shard].weight;
  }
  // See RestOfMaster; not given where weights are fp32. These three may lie in host memory (Device::AllocateHost).
  const Tensor& low(std::size_t shard) const { return states_[shard].low; }
  const Tensor& first_moment(std::size_t shard) const { return states_[shard].first_moment; }
  const Tensor& second_moment(std::size_t shard) const { return states_[shard].second_moment; }
  // The moments of a range of a shard; not given where its rule has none.
  Tensor FirstMoment(std::size_t shard, const UpdatedRange& range) const;
  Tensor SecondMoment(std::size_t shard, const UpdatedRange& range) const;
  // Adafactor's moments of rows and columns, equal on every rank that holds a part of the parameter.
  const std::vector<FactoredMoments>& factored() const;

 private:
  // State of a shard, or of a piece of one. Parts may be missing.
  struct State {
    Tensor weight;  // where it lies in host memory
    Tensor low;
    Tensor first_moment;
    Tensor second_moment;
  };
  struct PlannedRange {
    UpdateRange range;
    int row = -1;
  };
  // What is updated at once: everything, or a piece whose state comes to the device for it.
  struct Piece {
    State home;     // nothing where all is on the device already
    State passing;  // the part of a slot that holds it during the update
    std::map<UpdateKind, std::vector<UpdateRange>> first_pass;
    std::vector<PlannedRange> second_pass;
  };

  // Without weights.
  State Allocate(Arena& arena, MemoryKind kind, const OptimizerCounts& counts) const;
  // The part [first, first + count) of a shard as a piece, whose state passes through `slot` where that is given.
  Piece PieceOf(const OwnedShard& shard, const State& state, std::int64_t first, std::int64_t count,
                const State* slot) const;
  void AddRange(const UpdatedRange& range, const UpdateRange& update, Piece& piece) const;
  // Calls update(piece) for every piece, its state on the device.
  void ForEachPiece(bool with_moments, const std::function<void(const Piece&)>& update);
  void Move(const State& to, const State& from, bool with_moments);

  Device& device_;
  Ops& ops_;
  OptimizerOptions options_;
  std::vector<OwnedShard> shards_;
  std::vector<State> states_;
  std::vector<Piece> pieces_;
  std::unique_ptr<ShardedState> sharded_;
  std::unique_ptr<Muon> muon_;
  std::unique_ptr<Adafactor> adafactor_;
};

}  // namespace trireme
