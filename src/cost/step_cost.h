// What one training step asks of one rank: memory by kind, FLOPs, and bytes by group and collective. The trainer's
// arena is built from this and its counters must equal it (law 5); the planner adds time.
#pragma once

#include <array>
#include <vector>

#include "base/accounting.h"
#include "cost/module_cost.h"
#include "cost/optimizer_plan.h"
#include "cost/power_sgd_plan.h"
#include "cost/shard_plan.h"
#include "lowering/module_plan.h"
#include "lowering/module_program.h"
#include "run/run_config.h"
#include "schedule/schedule.h"

namespace trireme {

// kData: the replicas, data x context ranks.
enum class GroupKind : std::uint8_t { kTensor, kContext, kData, kPipeline, kTied, kWorld };
inline constexpr int kGroupKinds = 6;
std::string_view Name(GroupKind group);

struct StepCost {
  MemoryUse memory;
  FlopCount flops;
  std::array<Traffic, kGroupKinds> traffic;
  Traffic& operator[](GroupKind group) { return traffic[static_cast<std::size_t>(group)]; }
  const Traffic& operator[](GroupKind group) const { return traffic[static_cast<std::size_t>(group)]; }
};

// The numbers that all ranks add up once a step: loss, weight of the loss, squared gradient norm, spare.
inline constexpr std::int64_t kStepNumbers = 4;

// Everything about a stage that its cost follows from.
struct StageDescription {
  const ModelConfig& model;
  const ParallelLayout& layout;
  const StagePartition& partition;
  const ShardPlan& shards;
  LocalSizes sizes;
  int pipeline = 0;            // coordinate
  std::vector<int> slots;      // by chunk: micro batches whose tensors are kept at once
  int micro_batches = 1;       // of this step
  int most_micro_batches = 1;  // of any step: batches and slots are planned for these
  bool document_masks = false;
  bool document_positions = false;
  std::int64_t head_chunk = 0;      // train.head_chunk
  DType moments = DType::kFloat32;  // optimizer.moments
  OptimizerPlan optimizer = {};
  PowerSgdPlan power_sgd = {};  // traffic and FLOPs are those of steps that compress
  // The cache of a planner that describes many stages; nullptr: programs are made for this description.
  BlockProgramCache* programs = nullptr;

  // The modules of a chunk.
  const ModuleRange& Range(int chunk) const;
  // Whether this stage computes the loss.
  bool HoldsHead() const;
};

// Sizes of the block at `index` (from 0) among the blocks of its chunk: recomputing, or beyond recompute_layers not.
const LocalSizes BlockSizes(const LocalSizes& sizes, const ParallelLayout& layout, std::int64_t index);

// Bytes that one micro batch keeps in a chunk: of each module in their order, one after another, and of all.
std::vector<std::int64_t> KeptOfModules(const StageDescription& stage, int chunk);
std::int64_t KeptBytes(const StageDescription& stage, int chunk);
// Where they lie. With layout.offload_activations those of blocks are in host memory, and the device has the input of a
// chunk that begins with a block; kActivationBuffers buffers that hold any block of the rank serve all its chunks.
struct KeptPlaces {
  std::int64_t device = 0;
  std::int64_t host = 0;
  std::int64_t largest_block = 0;  // 0 where blocks keep theirs on the device
};
inline constexpr int kActivationBuffers = 3;
KeptPlaces PlacesOfKept(const StageDescription& stage, int chunk);
std::int64_t ActivationBufferBytes(const StageDescription& stage);
std::int64_t ScratchBytes(const StageDescription& stage);
// Bytes of fp8 weights, which no micro batch owns: ModuleProgram::weight_bytes of a chunk's blocks.
std::int64_t WeightCopyBytes(const StageDescription& stage, int chunk);
// The stage's sizes, with float8_weights set where that takes no more memory than the same run in bf16 would. Every
// result is the same to the bit. Not with weights that are gathered for each use (ZeRO 3) or lie in host memory.
LocalSizes WithFloat8Weights(const StageDescription& stage);
// Sum of the modules of a virtual stage, for one micro batch.
ModuleCost CostOfVirtualStage(const StageDescription& stage, int chunk);

MemoryUse MemoryOfStage(const StageDescription& stage);
// replica: which shard (the replicated part of a bucket lies in the first shards only). tensor_rank: Muon's matrices
// have owners among both.
StepCost CostOfStep(const StageDescription& stage, int replica, int tensor_rank = 0);

// The description that a run has at a pipeline coordinate; the pieces it refers to live in it.
class StageOfRun {
 public:
  // Requires Validate(config, 0). global_batch: of the step; slots are planned for all steps. context_rank: of
  // LocalSizes.
  StageOfRun(const RunConfig& config, int pipeline, std::int64_t global_batch, int context_rank = 0);
  StageOfRun(const StageOfRun&) = delete;
  StageOfRun& operator=(const StageOfRun&) = delete;
  const StageDescription& description() const { return description_; }
  const ParameterTable& table() const { return table_; }

 private:
  ParameterTable table_;
  StagePartition partition_;
  ShardPlan shards_;
  StageDescription description_;
};

// The most micro batches a data rank runs in any step of the run.
int MostMicroBatches(const RunConfig& config);
// Types of weights and activations, and of the operands of the blocks' products: bf16 and e4m3 for train.dtype = "fp8".
DType WorkingDType(const std::string& train_dtype);
DType ProductDType(const std::string& train_dtype);

}  // namespace trireme
