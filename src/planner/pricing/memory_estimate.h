// Bytes of every stage by kind. Under our stack they are the trainer's own account (cost::MemoryOfStage), to the byte;
// other stacks are described by their MemoryTraits. The worst stage decides, and host memory is checked too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/accounting.h"
#include "cost/shard_plan.h"
#include "lowering/module_program.h"
#include "model/stage_partition.h"
#include "planner/pricing/pipeline_time.h"
#include "planner/pricing/plan_point.h"

namespace trireme {

struct StageMemory {
  double weights = 0;
  double gradients = 0;      // our stack: the fp32 buckets into which micro batches accumulate
  double accumulation = 0;   // fp32 copies of 16-bit gradients
  double optimizer = 0;      // master weights and moments
  double activations = 0;    // kept from forward to backward
  double scratch = 0;        // of the module at work: what is recomputed; our stack: a chunk of logits too
  double logits = 0;         // of a whole micro batch
  double messages = 0;       // pipeline messages, batches
  double fixed = 0;          // context, workspaces; our stack: and CommunicationOf, otherwise NCCL's buffers too
  double fragmentation = 0;  // real over textbook activations
  double host = 0;           // on the host, of this rank
  double host_copy = 0;      // our stack: of what this rank saves, from which checkpoints are written during training

  double total() const {
    return weights + gradients + accumulation + optimizer + activations + scratch + logits + messages + fixed +
           fragmentation;
  }
};

struct MemoryEstimate {
  std::vector<StageMemory> stages;  // by pipeline stage
  int worst = 0;
  double peak = 0;           // device bytes of the worst stage
  double reported = 0;       // of the stage that the stack's logs tell
  double host_per_node = 0;  // bytes on a node's host: offloaded, copied for a checkpoint, all where it is the device
  double nvme_per_node = 0;  // what the host cannot hold of it, where the stack uses NVMe
};

// Blocks by kind.
struct BlockCounts {
  std::int64_t dense = 0;
  std::int64_t sparse = 0;  // with experts

  std::int64_t total() const { return dense + sparse; }
  BlockCounts& operator+=(const BlockCounts& other);
};
// Counts the `count` blocks from `first`, or those of a virtual stage; blocks: BlocksOfStages.
BlockCounts KindsWithin(const ModelConfig& model, std::int64_t first, std::int64_t count);
BlockCounts KindsOf(const ModelConfig& model, const std::vector<std::int64_t>& blocks, int virtual_stage);

// Which parameters are counted.
struct CountedParameters {
  bool frozen = true;
  bool sharded = true;  // otherwise those alone that ZeRO 3 keeps whole
};

// What of a model does not depend on the layout, made once: cheap accounts of many layouts follow from it. Remembers
// the last cut and the last programs, so that each thread needs a copy of its own.
class ModelAccount {
 public:
  explicit ModelAccount(const ModelConfig& model);

  const ModelConfig& model() const { return model_; }
  // Parameters of a block (the mean of all), of one kind, of a block's experts, and of the token table, whole.
  double block_parameters() const;
  double dense_parameters() const { return dense_parameters_; }
  double sparse_parameters() const { return sparse_parameters_; }
  double expert_parameters() const;
  double table_parameters() const { return table_parameters_; }
  // The table of a model with one layer of each kind: entries of PlanOfStage name its rows.
  const ParameterTable& one_layer() const { return *one_layer_; }
  // A ShardPlan of a stage with these blocks. Entries take time to copy, and AdamW's memory does not need them.
  ShardPlan PlanOfStage(const ParallelLayout& layout, const BlockCounts& blocks, bool has_embedding, bool has_head,
                        bool with_entries = false) const;
  // Parameters in the buckets of that plan, padding included.
  std::int64_t ParametersOf(const ParallelLayout& layout, const BlockCounts& blocks, bool has_embedding, bool has_head,
                            const CountedParameters& counted = {}) const;
  // The model's block, lowered for these sizes.
  std::shared_ptr<const ModuleProgram> ProgramOf(const LocalSizes& sizes) const {
    return programs_.ProgramOf(model_, sizes);
  }
  BlockProgramCache& programs() const { return programs_; }

 private:
  const ShardPlan& Cut(const ParallelLayout& layout) const;
  // How often a bucket of the one-layer cut occurs in a stage.
  std::int64_t CopiesOf(const Bucket& bucket, const BlockCounts& blocks, bool has_embedding, bool has_head) const;

  ModelConfig model_;
  std::shared_ptr<const ParameterTable> one_layer_;  // shared by copies: it is never changed
  bool mixed_ = false;                               // blocks of both kinds
  double dense_parameters_ = 0;
  double sparse_parameters_ = 0;
  double table_parameters_ = 0;
  mutable int cut_tensor_ = 0;  // of cut_
  mutable int cut_data_ = 0;
  mutable std::int64_t cut_whole_ = 0;
  mutable std::shared_ptr<const ShardPlan> cut_;  // of one layer
  mutable BlockProgramCache programs_;
};

// Blocks of each virtual stage. Other stacks than ours accept a "uniform" partition that does not divide: all stages
// but the last ones take the quotient rounded up, as theirs do.
std::vector<std::int64_t> BlocksOfStages(const PlanPoint& point);

MemoryEstimate EstimateMemory(const PlanPoint& point, const ModelAccount& account,
                              const std::vector<std::int64_t>& blocks, PipelineClock& clock);
// Peak and host bytes alone, from the stages that can be the worst: of equal ones that which keeps most micro batches.
MemoryEstimate EstimatePeak(const PlanPoint& point, const ModelAccount& account,
                            const std::vector<std::int64_t>& blocks, PipelineClock& clock);
// Bytes of device memory that a run may fill.
double UsableMemory(const Cluster& cluster);

}  // namespace trireme
