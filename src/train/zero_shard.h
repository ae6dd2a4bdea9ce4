// Executes a ShardPlan: holds a rank's weights and gradients and moves them along the data axis as its ZeRO stage says.
//
//   stage   weights        gradients                                       after the update
//   0       whole          whole, all-reduced once a step                  nothing
//   1       whole          whole, reduce-scattered once a step             all-gather
//   2       whole          a module's, reduce-scattered each micro batch   all-gather
//   3       owned shards   likewise                                        nothing: gathered when used
//
// Weights that layout.offload = full keeps in host memory come to the device when used: the whole bucket, or under
// stage 3 the owned shard, which is then gathered. The all-gather of stages 1 and 2 passes through the device a bucket
// at a time.
//
// Where there are several data ranks, this happens in the device's collective stream, overlapped with forward and
// backward: stages 0 and 1 reduce a bucket as soon as its last micro batch has added to it; stages 2 and 3 reduce one
// module's gradients while the next computes the gradient of its input; stage 3 gathers one module ahead.
//
// A bucket that stage 3 keeps whole (layout.whole_below) is treated as under stage 1.
//
// Gradients and stage 3's weights may travel rounded to bf16 or as int8 blocks (layout.reduce, layout.gather). A bf16
// sum is rounded once more; parts in int8 come by an all-to-all and are summed in fp32 in the order of the ranks, and
// stage 0 gathers the sums as int8 again.
//
// With hybrid sharding (layout.shard_ranks) "data ranks" above are those of one group; once a step the owned gradients
// are summed over the groups.
//
// A frozen bucket (ShardPlan) has weights alone: whole, or under stage 3 owned shards that are gathered when used.
//
// Invariants: the gradients of one module are complete within one Open/Finish pair of a micro batch; after
// FinishGradients the owned range holds the sum over micro batches, data ranks, both owners of a tied table and, for
// replicated parameters under sequence parallelism, tensor ranks.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/checksum.h"
#include "comm/grid_comms.h"
#include "cost/rank_tensors.h"
#include "cost/shard_plan.h"
#include "device/arena.h"
#include "nn/parameters.h"
#include "optim/optimizer.h"
#include "train/owned_state.h"
#include "train/power_sgd.h"

namespace trireme {

// Views of memory that a step works on, for those who look into it or damage it on purpose (operate/drill.h).
struct LiveTensors {
  Tensor weights;    // of this rank's first bucket
  Tensor gradient;   // a range that this rank itself reads after the reduction; whole from the phase "reduce" on
  Tensor moment;     // of the first parameter that this rank owns a part of: the second where there is one
  Tensor loss_sums;  // of the micro batches of the step; whole from the phase "norm" on
};

class ZeroShard : public ParameterSource, public GradientSink {
 public:
  struct Options {
    int zero = 0;
    DType dtype = DType::kFloat32;
    bool sequence_parallel = false;  // replicated parameters see part of the tokens only
    OptimizerOptions optimizer;      // host_weights: all weights lie in host memory
    // How each parameter is updated; nullptr: by AdamW, decaying as its role says. Outlives this.
    const OptimizerPlan* plan = nullptr;
    const PowerSgdPlan* power_sgd = nullptr;  // compresses reductions of steps after power_sgd_start; outlives this
    std::int64_t power_sgd_start = 0;
    // How gradients and stage 3's weights are sent; kExact where there is one data rank.
    WireFormat reduce = WireFormat::kExact;
    WireFormat gather = WireFormat::kExact;
    // Where gradients lie over activations (cost/gradient_places.h): the start of these, and each bucket's place from
    // there. Not given where gradients have memory of their own.
    char* activations = nullptr;
    std::vector<std::int64_t> gradient_offsets;
    bool reuses_weights = false;  // several micro batches of a step multiply by them
  };
  // Everything referred to outlives this. Weights are undefined until SetMasters or a checkpoint, then Publish.
  ZeroShard(Arena& arena, GridComms& comms, const ShardPlan& plan, const ParameterTable& table, const Options& options);

  // ParameterSource
  void Gather(const ParameterUse& use) override;
  Tensor Get(int row) override;
  void Release(const ParameterUse& use) override;
  std::int64_t Version(int row) const override;
  // GradientSink
  void Open(const ParameterUse& use) override;
  Tensor Gradient(int row) override;
  bool Untouched(int row, bool first) const override;
  void Finish(const ParameterUse& use, bool last) override;

  // Zeroes what the step will add to; what lies over activations, when it is opened. `overwrites`: each block's first
  // micro batch is told so (MicroBatch::first), and overwrites the gradients of its matrices, which then need no
  // zeroes.
  void BeginStep(bool overwrites, std::int64_t step = 0);
  // After a step without an update: PowerSGD begins anew.
  void ResetCompression();
  // Rescales PowerSGD's residuals after a loss-scale change.
  void RescaleResiduals(float factor);
  // Brings the owned gradients to their invariant: reduces what is not reduced yet, and makes later work wait for it.
  void FinishGradients();
  // Ranges of owned gradients that this rank counts in the global norm: every element once in the world.
  const std::vector<Tensor>& counted_gradients() const { return counted_; }
  // Ranges of owned gradients that another rank counts from its own copy: they too must be finite.
  const std::vector<Tensor>& copied_gradients() const { return copied_; }
  // Updates owned shards, then makes weights present again where the stage keeps them whole.
  void Update(float learning_rate, float gradient_scale, std::int64_t step);

  // Rows of the table with an owned gradient that is not finite, ascending; after FinishGradients.
  std::vector<int> NonFiniteRows();
  // A digest of what every data rank must hold alike: working weights, under stage 0 also masters and moments; of
  // nothing under stage 3, which has no copies.
  Digest DigestOfCopies();
  // Without loss sums. The caller may write to them.
  LiveTensors Live();

  // Draws every owned master from (seed, parameter name, global index), then publishes.
  void DrawInitialWeights(std::uint64_t seed);
  // Views of all owned state, for checkpoints. Joins the halves of each master of a bf16 weight in the memory of the
  // gradients, which are overwritten: masters are there until InvalidateMasters. Those of frozen parameters are their
  // weights, in the working type. After writing masters call Publish().
  std::vector<OwnedState> JoinState();
  // Views of the gradients that the next update reads, as JoinState() gives masters; after FinishGradients.
  std::vector<OwnedState> OwnedGradients() const { return StateViews(true); }
  // Before a step or a validation: gradient memory gets another use, and masters must be asked for again.
  void InvalidateMasters() { masters_joined_ = false; }
  // Weights from masters, and the all-gather of stages 1 and 2. Requires a JoinState() that has not been dropped.
  void Publish();

 private:
  struct BucketState {
    Tensor weights;   // whole bucket; the owned shard under stage 3
    Tensor gradient;  // whole bucket; the owned shard under stages 2 and 3
    Tensor present;   // the gathered bucket while in use, where modules are gathered
    Tensor staging;   // where a micro batch's gradients are added under stages 2 and 3
    Event gathered;   // when `present` is there
    bool awaited = true;
    bool staged = false;   // stages 2 and 3: whether staging is cleared for this micro batch
    bool reduced = false;  // stages 0 and 1: whether the reduction has started
    int users = 0;         // stages 0 and 1: pieces of work that have not finished their last micro batch
    Event done;            // when the last reduction is
  };
  // The buffer that gradients of one bucket at a time are added to under stages 2 and 3.
  struct Staging {
    Tensor memory;
    Event free;  // when the reduction that reads it is done
  };

  template <typename Visit>
  void ForEachBucket(const ParameterUse& use, Visit visit);
  // Bucket and entry of a table row.
  std::pair<int, const BucketEntry*> Locate(int row) const;
  OwnedRange Owned(const Bucket& bucket) const;
  ZeroPolicy ShardsOf(std::size_t bucket) const { return trireme::ShardsOf(plan_.buckets[bucket], options_.zero); }
  // Whether a bucket's weights are made present for each use.
  bool Gathers(std::size_t bucket) const { return ShardsOf(bucket).parameters || options_.optimizer.host_weights; }
  // Starts to fill `present`, memory of the whole bucket.
  Event StartGather(std::size_t bucket, const Tensor& present);
  // Fills `present` with the data ranks' shards, of which `own` is this rank's.
  void GatherShards(const Tensor& own, const Tensor& present);
  // Does `work`, a movement along the data axis, in the stream that is the group's.
  Event AlongData(const std::function<void()>& work);
  bool over_activations() const { return options_.activations != nullptr; }
  // Whether a bucket's gradients are cleared when they are opened, as those must that lie over activations: each
  // module's are opened once a step. A tied table's are opened twice, and no activation comes near them.
  bool ClearedWhenOpened(std::size_t bucket) const { return over_activations() && !plan_.buckets[bucket].tied; }
  // Whether the first product that makes a gradient overwrites it: those of matrices of blocks and head, and of a tied
  // table that the head here comes to before the embedding.
  bool IsOverwritten(std::size_t bucket, int row) const;
  // Zeroes `memory`, which holds the gradients of a bucket, but for those that are overwritten.
  void ClearAllButMatrices(std::size_t bucket, const Tensor& memory);
  // Clears the staging of a bucket once its last reader is done with it.
  void ClearStaging(std::size_t bucket);
  // Stages 0 and 1: sums the bucket's gradient over the data ranks.
  void Reduce(std::size_t bucket);
  // Reduces in bf16; stages 2 and 3: `from`, a micro batch's, is added to the owned gradient.
  void ReduceNarrow(std::size_t bucket, const Tensor& from);
  // Reduces as int8 blocks.
  void ReduceInt8(std::size_t bucket, const Tensor& from);
  void AllocateBuckets(Arena& arena);
  std::vector<OwnedShard> MakeShards() const;
  // The part of an entry that this rank owns, as a range of its shard.
  std::optional<UpdatedRange> OwnedPart(const BucketEntry& entry, const OwnedRange& owned) const;
  // Where gathered weights of a bucket may lie.
  std::vector<Tensor>& BuffersFor(const Bucket& bucket) { return free_buffers_[GatherClass(bucket)]; }
  // Frozen ones only where something was written to them from outside.
  void GatherWeights(bool with_frozen);
  // Gathers a bucket of weights in host memory.
  void GatherOnHost(std::size_t bucket);
  // What JoinState() gives, without the masters' values; or what OwnedGradients() does.
  std::vector<OwnedState> StateViews(bool gradients = false) const;

  const ShardPlan& plan_;
  const ParameterTable& table_;
  Options options_;
  GridComms& comms_;
  Device& device_;
  Ops& ops_;
  std::vector<BucketState> buckets_;
  std::vector<std::pair<int, const BucketEntry*>> of_row_;
  std::array<std::vector<Tensor>, kGatherClasses> free_buffers_;  // for gathered modules
  Tensor tied_buffer_;
  Staging staging_;
  Staging tied_staging_;
  Tensor reduced_;
  Tensor narrow_;   // words of what is sent
  Tensor arrived_;  // words of the parts of a gradient that came
  bool overwrites_ = false;
  std::int64_t version_ = 1;  // of the weights
  bool masters_joined_ = false;
  std::vector<Tensor> counted_;
  std::vector<Tensor> copied_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<PowerSgd> power_sgd_;
  bool compresses_ = false;  // in this step
};

}  // namespace trireme
