#include "planner/pricing/counted_prices.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/shape.h"
#include "cost/communication_memory.h"
#include "cost/step_cost.h"
#include "planner/pricing/block_time.h"
#include "planner/pricing/context_time.h"
#include "planner/pricing/update_time.h"

namespace trireme {
namespace {

// Beyond the trainer's arena.
double FixedOf(const PlanPoint& point, const StageDescription& description) {
  if (point.cluster.device.is_host) {
    return 0;
  }
  return point.stack.memory.fixed + static_cast<double>(CommunicationOf(description).total());
}

StageMemory CountedMemory(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks,
                          const StagePartition& partition, int stage, PipelineClock& clock) {
  const ParallelLayout& layout = point.config.layout;
  const StagePlacement placement = PlacementOf(layout);
  BlockCounts own;
  for (int chunk = 0; chunk < placement.chunks; ++chunk) {
    own += KindsOf(point.config.model, blocks, placement.VirtualStage(stage, chunk));
  }
  const bool adamw = point.optimizer() == OptimizerKind::kAdamW;
  const ShardPlan shards = account.PlanOfStage(layout, own, stage == 0, stage == placement.HeadStage(),
                                               !adamw || point.config.optimizer.powersgd_rank > 0);
  OptimizerConfig optimizer;
  optimizer.kind = point.optimizer();
  optimizer.powersgd_rank = point.config.optimizer.powersgd_rank;
  const auto micro_batches = static_cast<int>(point.micro_batches());
  StageDescription description{
      .model = point.config.model,
      .layout = layout,
      .partition = partition,
      .shards = shards,
      .sizes = point.prices.Sizes(point),
      .pipeline = stage,
      .slots = clock.Slots({layout.schedule, layout.pipeline, layout.chunks, micro_batches}, stage),
      .micro_batches = micro_batches,
      .most_micro_batches = micro_batches,
      .moments = point.moments(),
      .optimizer =
          adamw ? OptimizerPlan() : OptimizerPlan(optimizer, point.dtype(), account.one_layer(), shards, layout),
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

}  // namespace

LocalSizes CountedPrices::Sizes(const PlanPoint& point) const {
  return {point.config.model, point.config.layout, point.dtype(), SplitsBackward(point.config.layout.schedule),
          !point.flash()};
}

std::int64_t CountedPrices::Vocabulary(const PlanPoint& point) const {
  return PaddedShare(point.config.model.vocabulary, point.config.layout.tensor);
}

// Parameters of the trainer's buckets. A tied table is held by both ends, unless they are on one stage: then it counts
// with the embedding.
double CountedPrices::Parameters(const PlanPoint& point, const ModelAccount& account,
                                 const std::vector<std::int64_t>& blocks, int virtual_stage,
                                 const CountedParameters& counted) const {
  const int last = point.config.layout.virtual_stages() - 1;
  const BlockCounts own = KindsOf(point.config.model, blocks, virtual_stage);
  if (virtual_stage == last && last > 0 && PlacementOf(point.config.layout).HeadStage() == 0) {
    return static_cast<double>(account.ParametersOf(point.config.layout, own, true, true, counted) -
                               account.ParametersOf(point.config.layout, {}, true, false, counted));
  }
  return static_cast<double>(
      account.ParametersOf(point.config.layout, own, virtual_stage == 0, virtual_stage == last, counted));
}

double CountedPrices::ParameterBytes(const PlanPoint& point) const {
  return static_cast<double>(SizeOf(point.dtype()));
}

std::function<StageMemory(int stage)> CountedPrices::Memory(const PlanPoint& point, const ModelAccount& account,
                                                            const std::vector<std::int64_t>& blocks,
                                                            PipelineClock& clock) const {
  return [&point, &account, &blocks, &clock, partition = StagePartition(point.config.model, point.config.layout)](
             int stage) { return CountedMemory(point, account, blocks, partition, stage, clock); };
}

double CountedPrices::ReportedMemory(const PlanPoint& /*point*/, const StageMemory& memory) const {
  return memory.total();
}

// What the trainer counts, over all ranks.
double CountedPrices::HardwareFlops(const PlanPoint& point, const ModelAccount& account) const {
  const LocalSizes sizes = Sizes(point);
  const auto flops_of = [](const ModuleCost& cost) {
    return cost.forward.flops.total() + cost.backward_input.flops.total() + cost.backward_weight.flops.total();
  };
  // Blocks are alike but for what they recompute, their attention and whether they have experts: each kind is counted
  // once.
  const std::int64_t limit =
      point.config.layout.recompute_layers > 0 ? point.config.layout.recompute_layers : point.config.model.layers;
  std::map<std::tuple<bool, AttentionKind, bool>, std::int64_t> kinds;  // (recomputes, attention, sparse): how many
  const ModelConfig& model = point.config.model;
  std::int64_t first = 0;
  for (const std::int64_t blocks : BlocksOfStages(point)) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      ++kinds[{block < limit, model.AttentionOf(first + block), model.IsSparse(first + block)}];
    }
    first += blocks;
  }
  std::int64_t flops = flops_of(CostOfEmbedding(sizes, point.config.model)) +
                       flops_of(CostOfHead(sizes, point.config.model, HeadChunk(sizes, 0)));
  for (const auto& [kind, count] : kinds) {
    const auto& [recomputes, attention, sparse] = kind;
    const LocalSizes of = (recomputes ? sizes : sizes.WithoutRecompute()).OfKind(model, sparse);
    const std::shared_ptr<const ModuleProgram> program =  // windows do not change it
        account.ProgramOf(of.WithAttention({.window = of.window, .rotary = attention.rotary}));
    flops += count * flops_of(CostOfBlock(of.WithAttention(attention), *program));
  }
  return static_cast<double>(flops) * static_cast<double>(point.micro_batches()) * point.config.layout.tensor *
         point.config.layout.replicas();
}

ModuleTime CountedPrices::Block(const PlanPoint& point, const LocalSizes& s, const ModuleProgram& program) const {
  const ModuleCost cost = CostOfBlock(s, program);
  const AttentionSeconds attention = TimeOfAttention(point, s, 0);
  ModuleTime time;
  const double last_product = AddProducts(point, program, true, time);
  time.forward.attention = attention.forward;
  time.backward_input.attention = attention.backward;
  // cost counts the second forward's bytes and collectives within the input part already.
  WorkTime& again = time.recomputed;
  if (s.recompute_block) {
    again = time.forward;
    again.matmul -= last_product;
  } else if (s.recompute_attention) {
    again.attention = attention.forward;
  }
  time.forward.memory = MemorySeconds(point, static_cast<double>(cost.forward.bytes_touched));
  time.backward_input.memory = MemorySeconds(point, static_cast<double>(cost.backward_input.bytes_touched));
  time.backward_weight.memory = MemorySeconds(point, static_cast<double>(cost.backward_weight.bytes_touched));
  AddTensor(point, cost, time);
  const auto exchange = [&](const Traffic& traffic) {
    double seconds = 0;
    for (const auto& [part, group] : PlaceContextTraffic(point.cluster, point.config.layout, s.head_ranks, traffic)) {
      seconds += GroupSeconds(point, part, group);
    }
    return seconds;
  };
  const ContextWait wait = WaitForContext(s, cost, attention, !point.cluster.device.is_host, exchange);
  time.forward.context = wait.forward;
  time.backward_input.context = wait.backward;
  AddCasts(point, s, time);
  time.backward_input += again;
  AddHost(point, s, cost, false, time);
  if (s.recompute_block) {
    time.backward_input += time.backward_weight;
    time.backward_weight = {};
  }
  return time;
}

// The trainer's head computes gradients as soon as a chunk of logits exists.
ModuleTime CountedPrices::Head(const PlanPoint& point, const LocalSizes& s) const {
  const ModuleCost cost = CostOfHead(s, point.config.model, HeadChunk(s, 0));
  const HeadProducts products = ProductsOfHead(point, s);
  ModuleTime time;
  time.forward.matmul = products.forward + products.backward;
  time.forward.memory = MemorySeconds(point, static_cast<double>(cost.forward.bytes_touched));
  time.forward.tensor = TensorSeconds(point, cost.forward.tensor);
  return time;
}

double CountedPrices::Accumulation(const PlanPoint& point, const StepParameters& of_stage) const {
  return AddedGradients(point, of_stage.trained) + HostGradients(point, of_stage.trained);
}

double CountedPrices::UpdateBytes(const PlanPoint& point) const {
  // bf16 has the halves of a master read and written, fp16 the master and the weight written.
  const double masters = point.dtype() == DType::kFloat16 ? 2 : 0;
  return StateBytes(point) + masters;
}

double CountedPrices::Directions(const PlanPoint& point) const {
  return TraitsOf(point.optimizer()).owns_matrices ? MuonSeconds(point) : 0;
}

}  // namespace trireme
