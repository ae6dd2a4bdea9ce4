#include "planner/pricing/memory_estimate.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/shape.h"
#include "planner/pricing/price_model.h"

namespace trireme {
namespace {

bool HasBothKinds(const ModelConfig& model) {
  const std::int64_t sparse = model.SparseLayers();
  return sparse > 0 && sparse < model.layers;
}

// A layer of each kind, the dense one first.
ModelConfig LayerOfEachKind(ModelConfig model) {
  const bool both = HasBothKinds(model);
  model.layers = both ? 2 : 1;
  model.experts.dense_layers = both ? 1 : 0;
  model.experts.period = 1;
  return model;
}

// Parameters of one block.
double ParametersOfKind(const ModelConfig& model, bool sparse) {
  ModelConfig one = model;
  one.layers = 1;
  one.experts.period = 1;
  one.experts.dense_layers = sparse ? 0 : 1;
  ModelConfig none = one;
  none.layers = 0;
  return static_cast<double>(ParameterCount(one) - ParameterCount(none));
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

// Blocks of each of its chunks, dense ones and those with experts; `blocks` by virtual stage.
std::vector<std::int64_t> BlocksOfChunks(const ModelConfig& model, const StagePlacement& placement,
                                         const std::vector<std::int64_t>& blocks, int stage) {
  std::vector<std::int64_t> own;
  for (int chunk = 0; chunk < placement.chunks; ++chunk) {
    const BlockCounts kinds = KindsOf(model, blocks, placement.VirtualStage(stage, chunk));
    own.insert(own.end(), {kinds.dense, kinds.sparse});
  }
  return own;
}

// The ranks of a node that save: without ZeRO data rank 0 saves for all. Data ranks follow each other on a node.
int SaversOfNode(const ParallelLayout& layout, int on_node) {
  const int copies = !ZeroShards(layout.zero).optimizer ? layout.replicas() : 1;
  return std::min(on_node, static_cast<int>(CeilDiv(on_node, layout.tensor * copies)) * layout.tensor);
}

}  // namespace

ModelAccount::ModelAccount(const ModelConfig& model)
    : model_(model),
      one_layer_(std::make_shared<const ParameterTable>(LayerOfEachKind(model))),
      mixed_(HasBothKinds(model)),
      dense_parameters_(ParametersOfKind(model, false)),
      sparse_parameters_(model.experts.any() ? ParametersOfKind(model, true) : 0) {
  table_parameters_ = static_cast<double>(model.vocabulary * model.hidden);
}

BlockCounts& BlockCounts::operator+=(const BlockCounts& other) {
  dense += other.dense;
  sparse += other.sparse;
  return *this;
}

BlockCounts KindsWithin(const ModelConfig& model, std::int64_t first, std::int64_t count) {
  BlockCounts kinds;
  for (std::int64_t layer = first; layer < first + count; ++layer) {
    ++(model.IsSparse(layer) ? kinds.sparse : kinds.dense);
  }
  return kinds;
}

BlockCounts KindsOf(const ModelConfig& model, const std::vector<std::int64_t>& blocks, int virtual_stage) {
  std::int64_t first = 0;
  for (int stage = 0; stage < virtual_stage; ++stage) {
    first += blocks[static_cast<std::size_t>(stage)];
  }
  return KindsWithin(model, first, blocks[static_cast<std::size_t>(virtual_stage)]);
}

double ModelAccount::block_parameters() const {
  const BlockCounts all = KindsWithin(model_, 0, model_.layers);
  return (static_cast<double>(all.dense) * dense_parameters_ + static_cast<double>(all.sparse) * sparse_parameters_) /
         static_cast<double>(model_.layers);
}

double ModelAccount::expert_parameters() const {
  return static_cast<double>(model_.experts.count * 3 * model_.experts.ffn * model_.hidden);
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

std::int64_t ModelAccount::CopiesOf(const Bucket& bucket, const BlockCounts& blocks, bool has_embedding,
                                    bool has_head) const {
  if (bucket.tied) {
    return has_embedding || has_head ? 1 : 0;
  }
  if (bucket.module == 0) {
    return has_embedding ? 1 : 0;
  }
  return bucket.module == one_layer_->config().modules() - 1 ? (has_head ? 1 : 0)
         : !mixed_                                           ? blocks.total()
         : bucket.module == 1                                ? blocks.dense
                                                             : blocks.sparse;
}

ShardPlan ModelAccount::PlanOfStage(const ParallelLayout& layout, const BlockCounts& blocks, bool has_embedding,
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

std::int64_t ModelAccount::ParametersOf(const ParallelLayout& layout, const BlockCounts& blocks, bool has_embedding,
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
  const ExpertsConfig& experts = model.experts;
  const std::int64_t ffn = experts.any() ? experts.chosen * experts.ffn + experts.shared_ffn : model.ffn;
  const double block = hidden * (2 * hidden + 2 * keys + matrices * static_cast<double>(ffn));
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
  const ParallelLayout& layout = point.config.layout;
  const int stages = layout.virtual_stages();
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(stages));
  if (!point.stack.policy.strict_partition && layout.partition == "cost") {
    return BlocksByWeights(point.config.model, stages);
  }
  if (!point.stack.policy.strict_partition && layout.partition == "uniform" &&
      point.config.model.layers % stages != 0) {
    const std::int64_t share = (point.config.model.layers + stages - 1) / stages;
    std::int64_t left = point.config.model.layers;
    for (std::int64_t& own : blocks) {
      own = std::min(share, left);
      left -= own;
    }
    return blocks;
  }
  if (layout.partition == "uniform" && point.config.model.layers % stages == 0) {
    std::fill(blocks.begin(), blocks.end(), point.config.model.layers / stages);
    return blocks;
  }
  const StagePartition partition(point.config.model, layout);
  for (int stage = 0; stage < stages; ++stage) {
    const ModuleRange& range = partition.Range(stage);
    blocks[static_cast<std::size_t>(stage)] = std::max<std::int64_t>(
        std::min(range.last, point.config.model.layers + 1) - std::max<std::int64_t>(range.first, 1), 0);
  }
  return blocks;
}

namespace {

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
  const ParallelLayout& layout = point.config.layout;
  const std::function<StageMemory(int)> memory_of = point.prices.Memory(point, account, blocks, clock);
  const StagePlacement placement = PlacementOf(layout);
  const PipelineShape shape{layout.schedule, layout.pipeline, layout.chunks, point.micro_batches()};
  std::vector<MiddleStage> seen;
  const int on_node = std::min(layout.ranks(), point.cluster.devices_per_node);
  const int savers = SaversOfNode(layout, on_node);
  double on_hosts = 0;
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    const bool end = stage == 0 || stage == placement.HeadStage();
    if (peak_only && !end) {
      MiddleStage middle{.blocks = BlocksOfChunks(point.config.model, placement, blocks, stage),
                         .slots = clock.Slots(shape, stage)};
      if (std::any_of(seen.begin(), seen.end(), [&](const MiddleStage& one) { return one.HoldsAsMuchAs(middle); })) {
        continue;
      }
      seen.push_back(std::move(middle));
    }
    const StageMemory memory = memory_of(stage);
    const double held = memory.host + (point.cluster.device.is_host ? memory.total() : 0.0);
    on_hosts = std::max(on_hosts, held * on_node + memory.host_copy * savers);
    if (memory.total() > estimate.peak) {
      estimate.peak = memory.total();
      estimate.worst = stage;
    }
    if (stage == 0 || !point.stack.memory.first_stage_reported) {
      estimate.reported = std::max(estimate.reported, point.prices.ReportedMemory(point, memory));
    }
    if (!peak_only) {
      estimate.stages.push_back(memory);
    }
  }
  estimate.nvme_per_node =
      point.stack.time.nvme_offload ? std::clamp(on_hosts - point.cluster.job_memory(), 0.0, point.cluster.nvme) : 0;
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
