#include "planner/pricing/memory_estimate.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "cost/communication_memory.h"
#include "cost/step_cost.h"
#include "planner/pricing/module_time.h"

namespace trireme {
namespace {

ModelConfig OneLayer(ModelConfig model) {
  model.layers = 1;
  return model;
}

// A bucket without its entries: enough for bytes.
Bucket Bare(const Bucket& bucket) {
  Bucket bare;
  bare.module = bucket.module;
  bare.tied = bucket.tied;
  bare.frozen = bucket.frozen;
  bare.whole = bucket.whole;
  bare.replicated = bucket.replicated;
  bare.count = bucket.count;
  bare.shard = bucket.shard;
  return bare;
}

// Blocks of each of its chunks; `blocks` by virtual stage.
std::vector<std::int64_t> BlocksOfChunks(const StagePlacement& placement, const std::vector<std::int64_t>& blocks,
                                         int stage) {
  std::vector<std::int64_t> own;
  for (int chunk = 0; chunk < placement.chunks; ++chunk) {
    own.push_back(blocks[static_cast<std::size_t>(placement.VirtualStage(stage, chunk))]);
  }
  return own;
}

// Beyond the trainer's arena.
double FixedOf(const PlanPoint& point, const StageDescription& description) {
  if (point.cluster.device.is_host) {
    return 0;
  }
  return point.stack.memory.fixed + static_cast<double>(CommunicationOf(description).total());
}

StageMemory OurStage(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks,
                     const StagePartition& partition, int stage, PipelineClock& clock) {
  const ParallelLayout& layout = point.layout;
  const StagePlacement placement = PlacementOf(layout);
  const std::vector<std::int64_t> own = BlocksOfChunks(placement, blocks, stage);
  const bool adamw = point.optimizer == OptimizerKind::kAdamW;
  const ShardPlan shards =
      account.PlanOfStage(layout, std::accumulate(own.begin(), own.end(), std::int64_t{0}), stage == 0,
                          stage == placement.HeadStage(), !adamw || point.power_sgd_rank > 0);
  OptimizerConfig optimizer;
  optimizer.name = Name(point.optimizer);
  optimizer.powersgd_rank = point.power_sgd_rank;
  const auto micro_batches = static_cast<int>(point.micro_batches());
  StageDescription description{
      .model = point.model,
      .layout = layout,
      .partition = partition,
      .shards = shards,
      .sizes = LocalSizes(point.model, layout, point.dtype, SplitsBackward(layout.schedule), !point.flash),
      .pipeline = stage,
      .slots = clock.Slots({layout.schedule, layout.pipeline, layout.chunks, micro_batches}, stage),
      .micro_batches = micro_batches,
      .most_micro_batches = micro_batches,
      .moments = point.moments,
      .optimizer = adamw ? OptimizerPlan() : OptimizerPlan(optimizer, point.dtype, account.one_layer(), shards, layout),
      .power_sgd = PowerSgdPlan(optimizer, shards, layout),
      .programs = &account.programs()};
  description.sizes = WithFloat8Weights(description);
  const MemoryUse use = MemoryOfStage(description);
  // A checkpoint holds master and moments in fp32.
  std::int64_t saved = 0;
  for (const Bucket& bucket : shards.buckets) {
    saved += OwnedCount(bucket, layout.zero) + description.optimizer.Moments(bucket, false, layout.zero, {}).count +
             description.optimizer.Moments(bucket, true, layout.zero, {}).count;
  }
  return {.weights = static_cast<double>(use[MemoryKind::kWeights]),
          .gradients = static_cast<double>(use[MemoryKind::kGradients]),
          .optimizer = static_cast<double>(use[MemoryKind::kOptimizer]),
          .activations = static_cast<double>(use[MemoryKind::kActivations]),
          .scratch = static_cast<double>(use[MemoryKind::kScratch]),
          .messages = static_cast<double>(use[MemoryKind::kMessages]),
          .fixed = FixedOf(point, description),
          .host = static_cast<double>(use[MemoryKind::kHost]),
          .host_copy = static_cast<double>(saved * SizeOf(DType::kFloat32))};
}

// The ranks of a node that save: without ZeRO data rank 0 saves for all. Data ranks follow each other on a node.
int SaversOfNode(const ParallelLayout& layout, int on_node) {
  const int copies = !ZeroShards(layout.zero).optimizer ? layout.replicas() : 1;
  return std::min(on_node, static_cast<int>(CeilDiv(on_node, layout.tensor * copies)) * layout.tensor);
}

// Tokens of a micro batch that a rank works on.
double TokensOf(const PlanPoint& point) {
  return static_cast<double>(point.layout.micro_batch) * static_cast<double>(point.model.sequence) /
         point.layout.context;
}

// Five bytes for each score of unfused attention.
double ScoreBytes(const PlanPoint& point) {
  return point.flash ? 0
                     : 5.0 * static_cast<double>(point.model.heads) * static_cast<double>(point.model.sequence) *
                           TokensOf(point) / point.layout.tensor;
}

// Bytes of one layer's tensors that autograd keeps for a micro batch (Korthikanti et al. 2022 for a GPT: 34 a token and
// hidden element, of which 24 are cut by the tensor axis): both norms' inputs and outputs, queries, keys, values, what
// attention leaves, and the feed-forward's.
double LayerBytes(const PlanPoint& point) {
  const ModelConfig& model = point.model;
  const MemoryTraits& traits = point.stack.memory;
  const double hidden = static_cast<double>(model.hidden);
  const double keys = static_cast<double>(model.kv_heads * model.head_size());
  const auto width = static_cast<double>(model.ffn);
  const bool gated = IsGated(model.feed_forward);
  double outside = (8 + traits.mask_bytes) * hidden;
  double inside = 4 * hidden + 4 * keys + (gated ? traits.gated_bytes : 4) * width;
  if (traits.float8_inputs && point.products == ProductFormat::kFloat8) {
    outside -= 2 * hidden;     // both norms' outputs
    inside += hidden - width;  // attention's output, which attention itself keeps too; the second product's input
  }
  return TokensOf(point) *
             (outside / (point.layout.sequence_parallel ? point.layout.tensor : 1) + inside / point.layout.tensor) +
         ScoreBytes(point);
}

StageMemory TheirStage(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks,
                       int stage, PipelineClock& clock) {
  const ParallelLayout& layout = point.layout;
  const MemoryTraits& traits = point.stack.memory;
  const double data = point.shards();
  const bool bf16 = point.dtype == DType::kBFloat16;
  double parameters = 0;
  double layers_here = 0;  // of one micro batch
  double layers_in_flight = 0;
  const std::vector<int> slots =
      clock.Slots({layout.schedule, layout.pipeline, layout.chunks, point.micro_batches()}, stage);
  const StagePlacement placement = PlacementOf(layout);
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const int here = placement.VirtualStage(stage, chunk);
    parameters += ParametersOfStage(point, account, blocks, here);
    layers_here += static_cast<double>(blocks[static_cast<std::size_t>(here)]);
    layers_in_flight +=
        static_cast<double>(blocks[static_cast<std::size_t>(here)]) * slots[static_cast<std::size_t>(chunk)];
  }
  const double sharded = ZeroShards(layout.zero).optimizer ? 1 / data : 1;
  StageMemory memory;
  memory.fixed = traits.fixed;
  const double weight = std::min(point.stack.time.parameter_bytes, traits.unsharded);
  memory.weights = weight * parameters * (ZeroShards(layout.zero).parameters ? sharded : 1);
  const double held = parameters * (ZeroShards(layout.zero).gradients ? sharded : 1);
  memory.gradients = (traits.unsharded - weight) * held;
  memory.accumulation = bf16 ? traits.accumulation * held : 0;
  // Adafactor keeps a row and a column where Adam keeps two matrices.
  memory.optimizer =
      (point.fused_optimizer ? traits.sharded : std::max(traits.sharded - 8, 0.0)) * parameters * sharded;
  if (point.stack.time.host_optimizer || layout.offload != Offload::kNone) {
    memory.host = memory.optimizer;
    memory.optimizer = 0;
  }
  if (layout.offload == Offload::kFull) {
    memory.host += memory.weights;
    memory.weights = 0;
  }
  if (ZeroShards(layout.zero).parameters) {
    // Gathered modules pass through, a few at a time.
    memory.scratch += 2 * point.stack.time.parameter_bytes * account.block_parameters() / layout.tensor;
  }
  if (!ZeroShards(layout.zero).optimizer && data > 1) {
    memory.scratch += traits.ddp_buckets * parameters;
  }
  const double layer = LayerBytes(point);
  const double tokens = TokensOf(point);
  if (layout.recompute == Recompute::kFull) {
    const double kept =
        2 * tokens * static_cast<double>(point.model.hidden) / (layout.sequence_parallel ? layout.tensor : 1);
    memory.activations = (traits.activations_on_host ? 2 : layers_in_flight) * kept;
    memory.host += traits.activations_on_host ? layers_in_flight * kept / layout.tensor : 0;
    memory.scratch += traits.layer_factor * layer;
    memory.fragmentation = (traits.activation_factor - 1) * (memory.activations + traits.layer_factor * layer);
  } else {
    const bool selective = layout.recompute == Recompute::kSelective;
    memory.activations = layers_in_flight * (selective ? traits.selective_share * (layer - ScoreBytes(point)) : layer);
    // Backward's own: gradients of the feed-forward's tensors, and what sequence parallelism has gathered.
    const double wide = static_cast<double>(point.model.ffn) / layout.tensor;
    memory.scratch += tokens * (6 * wide + 4 * static_cast<double>(point.model.hidden));
    memory.fragmentation = (traits.activation_factor - 1) * memory.activations;
  }
  if (layout.pipeline > 1) {
    // The gradient that comes in and the one that leaves; an input that came in is kept already.
    memory.messages = 4 * tokens * static_cast<double>(point.model.hidden) /
                      (point.stack.time.scatter_messages || layout.sequence_parallel ? layout.tensor : 1);
  }
  if (stage == placement.HeadStage()) {
    memory.logits = traits.logit_bytes * tokens * static_cast<double>(LocalVocabulary(point));
  }
  // At the end of a backward all gradients are there, and what its micro batch kept is gone.
  const double gone =
      layers_in_flight > 0
          ? traits.activation_factor * memory.activations * layers_here / layers_in_flight + memory.logits
          : memory.logits;
  memory.scratch += std::max(traits.late_gradients * parameters - gone, 0.0);
  return memory;
}

}  // namespace

ModelAccount::ModelAccount(const ModelConfig& model)
    : model_(model), one_layer_(std::make_shared<const ParameterTable>(OneLayer(model))) {
  ModelConfig two = model;
  two.layers = 2;
  const std::int64_t one = ParameterCount(OneLayer(model));
  block_parameters_ = static_cast<double>(ParameterCount(two) - one);
  table_parameters_ = static_cast<double>(model.vocabulary * model.hidden);
}

const ShardPlan& ModelAccount::Cut(const ParallelLayout& layout) const {
  const std::int64_t whole_below = ZeroShards(layout.zero).parameters ? layout.whole_below : 0;
  if (cut_ == nullptr || cut_tensor_ != layout.tensor || cut_data_ != layout.shards() || cut_whole_ != whole_below) {
    ParallelLayout flat = layout;
    flat.pipeline = 1;
    flat.chunks = 1;
    flat.partition = "uniform";
    const StagePartition partition(one_layer_->config(), flat);
    cut_ = std::make_shared<const ShardPlan>(*one_layer_, flat, partition, 0);
    cut_tensor_ = layout.tensor;
    cut_data_ = layout.shards();
    cut_whole_ = whole_below;
  }
  return *cut_;
}

std::int64_t ModelAccount::CopiesOf(const Bucket& bucket, std::int64_t blocks, bool has_embedding,
                                    bool has_head) const {
  if (bucket.tied) {
    return has_embedding || has_head ? 1 : 0;
  }
  if (bucket.module == 0) {
    return has_embedding ? 1 : 0;
  }
  return bucket.module == one_layer_->config().modules() - 1 ? (has_head ? 1 : 0) : blocks;
}

ShardPlan ModelAccount::PlanOfStage(const ParallelLayout& layout, std::int64_t blocks, bool has_embedding,
                                    bool has_head, bool with_entries) const {
  const ShardPlan& cut = Cut(layout);
  ShardPlan plan = cut;
  plan.buckets.clear();
  plan.tied_bucket = -1;
  for (std::size_t first = 0; first < cut.buckets.size();) {
    // A module's buckets follow each other.
    const Bucket& bucket = cut.buckets[first];
    std::size_t last = first + 1;
    while (last < cut.buckets.size() && !cut.buckets[last].tied && cut.buckets[last].module == bucket.module) {
      ++last;
    }
    const std::int64_t copies = CopiesOf(bucket, blocks, has_embedding, has_head);
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      if (bucket.tied) {
        plan.tied_bucket = static_cast<int>(plan.buckets.size());
        plan.tied_across_stages = !(has_embedding && has_head);
        plan.counts_tied = has_embedding;
      }
      for (std::size_t i = first; i < last; ++i) {
        plan.buckets.push_back(with_entries ? cut.buckets[i] : Bare(cut.buckets[i]));
      }
    }
    first = last;
  }
  return plan;
}

std::int64_t ModelAccount::ParametersOf(const ParallelLayout& layout, std::int64_t blocks, bool has_embedding,
                                        bool has_head, const CountedParameters& counted) const {
  std::int64_t parameters = 0;
  for (const Bucket& bucket : Cut(layout).buckets) {
    if ((counted.frozen || !bucket.frozen) && (counted.sharded || bucket.whole)) {
      parameters += bucket.count * CopiesOf(bucket, blocks, has_embedding, has_head);
    }
  }
  return parameters;
}

namespace {

// Blocks in order, each stage until it passes its share of all weights that are multiplied with: the head counts, the
// embedding does not. A stage keeps the block that passes.
std::vector<std::int64_t> BlocksByWeights(const ModelConfig& model, int stages) {
  const double hidden = static_cast<double>(model.hidden);
  const double keys = static_cast<double>(model.kv_heads * model.head_size());
  const double matrices = IsGated(model.feed_forward) ? 3 : 2;
  const double block = hidden * (2 * hidden + 2 * keys + matrices * static_cast<double>(model.ffn));
  const double share = (static_cast<double>(model.layers) * block + hidden * static_cast<double>(model.vocabulary)) /
                       static_cast<double>(stages);
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(stages), 0);
  int stage = 0;
  for (std::int64_t i = 1; i <= model.layers; ++i) {
    ++blocks[static_cast<std::size_t>(stage)];
    if (static_cast<double>(i) * block > share * (stage + 1) && stage + 1 < stages) {
      ++stage;
    }
  }
  return blocks;
}

}  // namespace

std::vector<std::int64_t> BlocksOfStages(const PlanPoint& point) {
  const ParallelLayout& layout = point.layout;
  const int stages = layout.virtual_stages();
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(stages));
  if (!point.stack.policy.strict_partition && layout.partition == "cost") {
    return BlocksByWeights(point.model, stages);
  }
  if (!point.stack.policy.strict_partition && layout.partition == "uniform" && point.model.layers % stages != 0) {
    const std::int64_t share = (point.model.layers + stages - 1) / stages;
    std::int64_t left = point.model.layers;
    for (std::int64_t& own : blocks) {
      own = std::min(share, left);
      left -= own;
    }
    return blocks;
  }
  if (layout.partition == "uniform" && point.model.layers % stages == 0) {
    std::fill(blocks.begin(), blocks.end(), point.model.layers / stages);
    return blocks;
  }
  const StagePartition partition(point.model, layout);
  for (int stage = 0; stage < stages; ++stage) {
    const ModuleRange& range = partition.Range(stage);
    blocks[static_cast<std::size_t>(stage)] = std::max<std::int64_t>(
        std::min(range.last, point.model.layers + 1) - std::max<std::int64_t>(range.first, 1), 0);
  }
  return blocks;
}

double ParametersOfStage(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks,
                         int virtual_stage, const CountedParameters& counted) {
  const int last = point.layout.virtual_stages() - 1;
  const std::int64_t own = blocks[static_cast<std::size_t>(virtual_stage)];
  // A tied table is held by both ends, unless they are on one stage: then it counts with the embedding.
  const bool with_embedding = PlacementOf(point.layout).HeadStage() == 0;
  if (point.stack.policy.counted_costs) {
    if (virtual_stage == last && last > 0 && with_embedding) {
      return static_cast<double>(account.ParametersOf(point.layout, own, true, true, counted) -
                                 account.ParametersOf(point.layout, 0, true, false, counted));
    }
    return static_cast<double>(
        account.ParametersOf(point.layout, own, virtual_stage == 0, virtual_stage == last, counted));
  }
  if (!counted.sharded) {
    return 0;  // what other stacks keep whole is not known
  }
  const double table = static_cast<double>(LocalVocabulary(point)) * static_cast<double>(point.model.hidden);
  double parameters = static_cast<double>(own) * account.block_parameters() / point.layout.tensor;
  if (virtual_stage == 0) {
    parameters += table;
  }
  if (virtual_stage == last && (!with_embedding || !point.model.tie_embeddings)) {
    parameters += table;
  }
  return parameters;
}

namespace {

double Reported(const StackState& stack, const StageMemory& memory) {
  using Kind = MemoryTraits::Reported;
  const Kind kind = stack.policy.counted_costs ? Kind::kDevice : stack.memory.reported;
  return memory.total() - (kind == Kind::kDevice ? 0 : memory.fixed) -
         (kind == Kind::kAllocated ? memory.fragmentation : 0);
}

// What the memory of a stage without embedding and head depends on, by chunk.
struct MiddleStage {
  std::vector<std::int64_t> blocks;
  std::vector<int> slots;

  bool HoldsAsMuchAs(const MiddleStage& other) const {
    return blocks == other.blocks &&
           std::equal(slots.begin(), slots.end(), other.slots.begin(), std::greater_equal<>());
  }
};

MemoryEstimate EstimateStages(const PlanPoint& point, const ModelAccount& account,
                              const std::vector<std::int64_t>& blocks, PipelineClock& clock, bool peak_only) {
  MemoryEstimate estimate;
  const ParallelLayout& layout = point.layout;
  std::optional<StagePartition> partition;
  if (point.stack.policy.counted_costs) {
    partition.emplace(point.model, layout);
  }
  const StagePlacement placement = PlacementOf(layout);
  const PipelineShape shape{layout.schedule, layout.pipeline, layout.chunks, point.micro_batches()};
  std::vector<MiddleStage> seen;
  const int on_node = std::min(layout.ranks(), point.cluster.devices_per_node);
  const int savers = SaversOfNode(layout, on_node);
  double on_hosts = 0;
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    const bool end = stage == 0 || stage == placement.HeadStage();
    if (peak_only && !end) {
      MiddleStage middle{.blocks = BlocksOfChunks(placement, blocks, stage), .slots = clock.Slots(shape, stage)};
      if (std::any_of(seen.begin(), seen.end(), [&](const MiddleStage& one) { return one.HoldsAsMuchAs(middle); })) {
        continue;
      }
      seen.push_back(std::move(middle));
    }
    const StageMemory memory = point.stack.policy.counted_costs
                                   ? OurStage(point, account, blocks, *partition, stage, clock)
                                   : TheirStage(point, account, blocks, stage, clock);
    const double held = memory.host + (point.cluster.device.is_host ? memory.total() : 0.0);
    on_hosts = std::max(on_hosts, held * on_node + memory.host_copy * savers);
    if (memory.total() > estimate.peak) {
      estimate.peak = memory.total();
      estimate.worst = stage;
    }
    if (stage == 0 || !point.stack.memory.first_stage_reported) {
      estimate.reported = std::max(estimate.reported, Reported(point.stack, memory));
    }
    if (!peak_only) {
      estimate.stages.push_back(memory);
    }
  }
  estimate.nvme_per_node =
      point.stack.time.nvme_offload ? std::clamp(on_hosts - point.cluster.host_memory, 0.0, point.cluster.nvme) : 0;
  estimate.host_per_node = on_hosts - estimate.nvme_per_node;
  return estimate;
}

}  // namespace

MemoryEstimate EstimateMemory(const PlanPoint& point, const ModelAccount& account,
                              const std::vector<std::int64_t>& blocks, PipelineClock& clock) {
  return EstimateStages(point, account, blocks, clock, false);
}

MemoryEstimate EstimatePeak(const PlanPoint& point, const ModelAccount& account,
                            const std::vector<std::int64_t>& blocks, PipelineClock& clock) {
  return EstimateStages(point, account, blocks, clock, true);
}

double UsableMemory(const Cluster& cluster) { return cluster.device.memory; }

}  // namespace trireme
