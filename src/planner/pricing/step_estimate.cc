#include "planner/pricing/step_estimate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/shape.h"
#include "base/tensor_spec.h"
#include "cost/formulas.h"
#include "cost/optimizer_plan.h"
#include "cost/power_sgd_plan.h"
#include "planner/pricing/data_parallel_time.h"
#include "planner/pricing/price_model.h"
#include "planner/pricing/update_time.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

// Bytes that an update on the host reads and writes for each parameter.
constexpr double kHostOptimizerBytes = 28;

struct StageWork {
  ModuleTime blocks;  // of one micro batch
  ModuleTime ends;    // embedding and head
  double accumulate = 0;
};

bool Offloads(const PlanPoint& point) {
  return point.stack.time.host_optimizer || point.config.layout.offload != Offload::kNone;
}

StepParameters TrainedOf(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks,
                         int virtual_stage) {
  return {.trained = point.prices.Parameters(point, account, blocks, virtual_stage, {.frozen = false}),
          .whole = point.prices.Parameters(point, account, blocks, virtual_stage, {.frozen = false, .sharded = false}),
          .experts = point.prices.ExpertParameters(point, account, blocks, virtual_stage)};
}

struct Costs {
  ScheduleCosts schedule;
  std::vector<StageWork> work;  // by virtual stage
};

// A block of each kind that the model has.
struct KindTimes {
  ModuleTime dense;
  ModuleTime sparse;

  ModuleTime Of(const BlockCounts& counts) const {
    ModuleTime time = dense * static_cast<double>(counts.dense);
    time += sparse * static_cast<double>(counts.sparse);
    return time;
  }
};

KindTimes TimesOf(const PlanPoint& point, const ModelAccount& account, const LocalSizes& sizes) {
  const ModelConfig& model = point.config.model;
  const BlockCounts all = KindsWithin(model, 0, model.layers);
  KindTimes times;
  for (const bool sparse : {false, true}) {
    if ((sparse ? all.sparse : all.dense) > 0) {
      const LocalSizes own = sizes.OfKind(model, sparse);
      (sparse ? times.sparse : times.dense) = TimeOfKind(point, own, *account.ProgramOf(own));
    }
  }
  return times;
}

Costs PriceStages(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks) {
  const LocalSizes sizes = point.prices.Sizes(point);
  const KindTimes recomputing = TimesOf(point, account, sizes);
  const KindTimes keeping =
      point.config.layout.recompute_layers > 0 ? TimesOf(point, account, sizes.WithoutRecompute()) : recomputing;
  const std::size_t places = blocks.size();
  std::int64_t first = 0;
  Costs costs;
  costs.work.resize(places);
  for (std::size_t place = 0; place < places; ++place) {
    StageWork& work = costs.work[place];
    const std::int64_t again = point.config.layout.recompute_layers > 0
                                   ? std::min<std::int64_t>(blocks[place], point.config.layout.recompute_layers)
                                   : blocks[place];
    const ModelConfig& model = point.config.model;
    work.blocks = recomputing.Of(KindsWithin(model, first, again));
    work.blocks += keeping.Of(KindsWithin(model, first + again, blocks[place] - again));
    first += blocks[place];
    if (place == 0) {
      work.ends += point.prices.Embedding(point, sizes);
    }
    if (place + 1 == places) {
      work.ends += point.prices.Head(point, sizes);
    }
    work.accumulate = point.prices.Accumulation(point, TrainedOf(point, account, blocks, static_cast<int>(place)));
    costs.schedule.forward.push_back(work.blocks.forward.total() + work.ends.forward.total());
    costs.schedule.backward_input.push_back(work.blocks.backward_input.total() + work.ends.backward_input.total());
    costs.schedule.backward_weight.push_back(work.blocks.backward_weight.total() + work.ends.backward_weight.total() +
                                             work.accumulate);
  }
  const double message = static_cast<double>(sizes.outside) * static_cast<double>(sizes.hidden) *
                         static_cast<double>(sizes.element()) /
                         (point.stack.time.scatter_messages && !sizes.sequence_parallel ? sizes.tensor : 1);
  costs.schedule.message = point.prices.Message(point, message);
  return costs;
}

// Seconds in which every rank of a node moves so many bytes over its link in one direction.
double LinkSeconds(const PlanPoint& point, double bytes) {
  const int on_node = std::min(point.config.layout.ranks(), point.cluster.devices_per_node);
  const Efficiencies& e = point.stack.efficiencies;
  return std::max(bytes / (point.cluster.host_link.bandwidth * e.host_link),
                  bytes * on_node / (point.cluster.host_bandwidth * e.host_memory));
}

// Seconds in which what `blocks` blocks keep for a micro batch passes the link once, where it lies in host memory.
double KeptSeconds(const PlanPoint& point, const ModelAccount& account, std::int64_t blocks) {
  if (!point.config.layout.offload_activations) {
    return 0;
  }
  const LocalSizes sizes = point.prices.Sizes(point);
  const std::int64_t limit = point.config.layout.recompute_layers > 0 ? point.config.layout.recompute_layers : blocks;
  const std::int64_t again = std::min(blocks, limit);
  const std::int64_t bytes =
      again * account.ProgramOf(sizes)->kept_bytes +
      (blocks > again ? (blocks - again) * account.ProgramOf(sizes.WithoutRecompute())->kept_bytes : 0);
  return LinkSeconds(point, static_cast<double>(bytes));
}

// Seconds in which all of a stage's weights come from the host once, where our stack keeps them there.
double FetchSeconds(const PlanPoint& point, double parameters, double whole = 0) {
  if (!point.stack.policy.staged_offload || point.config.layout.offload != Offload::kFull) {
    return 0;
  }
  const double owned =
      ZeroShards(point.config.layout.zero).parameters ? whole + (parameters - whole) / point.shards() : parameters;
  return LinkSeconds(point, owned * static_cast<double>(point.prices.Sizes(point).element()));
}

// What each micro batch repeats, less what compute hides: gathers and reductions of ZeRO 2 and 3, weights that come
// from the host, activations that go there and come back. Added to the costs.
double AddShardTraffic(const PlanPoint& point, const ModelAccount& account, Costs& costs,
                       const std::vector<std::int64_t>& blocks) {
  const ParallelLayout& layout = point.config.layout;
  const bool shards = ZeroShards(layout.zero).gradients && layout.replicas() > 1;
  if (!shards && FetchSeconds(point, 1) == 0 && !layout.offload_activations) {
    return 0;
  }
  double most = 0;
  for (std::size_t place = 0; place < blocks.size(); ++place) {
    const double parameters = point.prices.Parameters(point, account, blocks, static_cast<int>(place), {});
    const double modules = static_cast<double>(blocks[place]) + 1;
    const double whole = point.prices.Parameters(point, account, blocks, static_cast<int>(place), {.sharded = false});
    const bool gathers = shards && ZeroShards(layout.zero).parameters && parameters > whole;
    const StepParameters trained = TrainedOf(point, account, blocks, static_cast<int>(place));
    const double experts = trained.experts;
    const double gather = (gathers ? GatherSeconds(point, parameters - whole - experts, modules) +
                                         ExpertGatherSeconds(point, experts, modules)
                                   : 0) +
                          FetchSeconds(point, parameters, whole);
    const double staged = trained.trained - trained.whole;
    const double reduce = shards && staged > 0 ? ReductionSeconds(point, staged - experts, modules) +
                                                     ExpertReductionSeconds(point, experts, modules)
                                               : 0;
    const double repeats = layout.recompute == Recompute::kFull && point.stack.time.gather_again ? 2 : 1;
    const double overlap = point.stack.time.shard_overlap;
    double& forward = costs.schedule.forward[place];
    double& backward = costs.schedule.backward_input[place];
    double& weight_part = costs.schedule.backward_weight[place];
    const auto exposed = [overlap](double traffic, double work) {
      return std::max(traffic - overlap * work, traffic * (1 - overlap));
    };
    const double kept = KeptSeconds(point, account, blocks[place]);
    // Weights come over the same direction of the link. A backward in parts has what is kept come for each.
    const bool parts = SplitsBackward(layout.schedule);
    const double fetched = kept + FetchSeconds(point, parameters, whole);
    const double exposed_forward = std::max(exposed(gather, forward), exposed(kept, forward));
    const double exposed_backward = std::max(exposed(repeats * gather + reduce, backward),
                                             kept > 0 ? exposed(fetched, backward + (parts ? 0 : weight_part)) : 0);
    weight_part += parts ? exposed(kept, weight_part) : 0;
    forward += exposed_forward;
    backward += exposed_backward;
    most = std::max(most, exposed_forward + exposed_backward);
  }
  return most;
}

// What PowerSGD leaves of the bytes of a block's gradients, and the FLOPs of it for each of their elements.
struct CompressedGradients {
  double share = 1;
  double flops = 0;
};

CompressedGradients CompressedBy(const PlanPoint& point, const ModelAccount& account) {
  OptimizerConfig optimizer;
  optimizer.powersgd_rank = point.config.optimizer.powersgd_rank;
  const BlockCounts one = KindsWithin(point.config.model, point.config.model.layers - 1, 1);
  const ShardPlan block = account.PlanOfStage(point.config.layout, one, false, false, true);
  const PowerSgdPlan plan(optimizer, block, point.config.layout);
  Traffic traffic;
  plan.AddTraffic(traffic);
  const auto elements = static_cast<double>(account.ParametersOf(point.config.layout, one, false, false));
  constexpr double kGradientBytes = 4;
  const std::int64_t bytes = traffic.bytes[static_cast<std::size_t>(CollectiveKind::kAllReduce)];
  return {.share = static_cast<double>(bytes) / (kGradientBytes * elements),
          .flops = static_cast<double>(plan.Flops()) / elements};
}

// PowerSGD waits for the end of backward: both products, what they leave out and the sum read the gradients once each.
void AddCompression(const PlanPoint& point, const CompressedGradients& compressed, double parameters,
                    StepTerms& terms) {
  constexpr double kPassBytes = 4 * 4.0;
  const Efficiencies& e = point.stack.efficiencies;
  const double products = parameters * compressed.flops / (point.cluster.device.Peak(DType::kFloat32) * e.matmul);
  const double passes = parameters * kPassBytes / (point.cluster.device.memory_bandwidth * e.memory);
  terms.compress = std::max(products, passes);
}

// What a step does once, on the heaviest stage.
void AddStepWork(const PlanPoint& point, const ModelAccount& account, const StepParameters& of_stage, double backward,
                 StepEstimate& estimate) {
  const double parameters = of_stage.trained;
  const double buckets = point.prices.Reductions(point, parameters);
  const ParallelLayout& layout = point.config.layout;
  const TimeTraits& time = point.stack.time;
  const Efficiencies& e = point.stack.efficiencies;
  StepTerms& terms = estimate.terms;
  const double experts = of_stage.experts;
  const double owned = ZeroShards(layout.zero).optimizer
                           ? (parameters - experts) / point.shards() + experts / std::max(1, layout.expert_replicas())
                           : parameters;
  // What ZeRO 3 keeps whole is reduced and gathered once a step, as under stage 1.
  const double once = ZeroShards(layout.zero).gradients ? of_stage.whole : parameters;
  const double once_experts = ZeroShards(layout.zero).gradients ? 0 : experts;
  double reduction = (once > 0 ? ReductionSeconds(point, once - once_experts, buckets) : 0) +
                     ExpertReductionSeconds(point, once_experts, buckets);
  if (point.power_sgd && layout.replicas() > 1) {
    reduction *= time.power_sgd_share;
    terms.compress = parameters * time.power_sgd_seconds;
  }
  const bool compresses = point.config.optimizer.powersgd_rank > 0 && layout.replicas() > 1;
  if (compresses) {
    const CompressedGradients compressed = CompressedBy(point, account);
    constexpr double kCollectives = 3;  // of a bucket: its vectors, and both factors
    reduction = DataParallelSeconds(point, CollectiveKind::kAllReduce,
                                    parameters * GradientBytes(point) * compressed.share, kCollectives * buckets);
    AddCompression(point, compressed, parameters, terms);
  }
  const double updated = ZeroShards(layout.zero).parameters ? of_stage.whole : parameters;
  const double gather = ZeroShards(layout.zero).optimizer && updated > 0
                            ? UpdatedSeconds(point, (updated - once_experts) * point.prices.ParameterBytes(point)) +
                                  ExpertGatherSeconds(point, once_experts, 1)
                            : 0;
  // Only the last micro batch's backward is overlapped with the reduction.
  estimate.data_hidden = compresses ? 0 : std::min(time.data_overlap * reduction, backward);
  terms.data = reduction - estimate.data_hidden + gather + (gather > 0 ? ShardCopySeconds(point, updated) : 0);
  if (point.stack.policy.staged_offload && Offloads(point)) {
    terms.offload += PassingSeconds(point, owned);
  } else if (Offloads(point)) {
    const double bytes =
        owned * (time.host_optimizer ? time.parameter_bytes : time.gradient_bytes + time.parameter_bytes);
    const int on_node = std::min(layout.ranks(), point.cluster.devices_per_node);
    terms.offload = bytes / (point.cluster.host_link.bandwidth * e.host_link) +
                    owned * kHostOptimizerBytes * on_node / (point.cluster.host_bandwidth * e.host_memory) +
                    NvmeSeconds(point, owned);
  } else {
    terms.optimizer = point.prices.Update(point, parameters, owned);
  }
  terms.optimizer += point.prices.Directions(point);
  if (layout.offload == Offload::kFull && !point.stack.policy.staged_offload) {
    // Weights come from the host for forward and for backward of every micro batch.
    const double bytes = 2 * owned * time.parameter_bytes * static_cast<double>(point.micro_batches());
    terms.offload += bytes / (point.cluster.host_link.bandwidth * e.host_link);
  }
  terms.fixed = point.prices.Fixed(point);
}

void FillComputeTerms(const PlanPoint& point, const StageWork& work, StepTerms& terms) {
  const auto m = static_cast<double>(point.micro_batches());
  WorkTime sum = work.blocks.forward;
  sum += work.blocks.backward_input;
  sum += work.blocks.backward_weight;
  terms.matmul = m * sum.matmul;
  terms.attention = m * sum.attention;
  terms.memory = m * sum.memory;
  terms.tensor = m * sum.tensor;
  terms.context = m * sum.context;
  terms.experts = m * sum.experts;
  terms.overhead = m * sum.overhead;
  terms.head = m * work.ends.total();
  terms.accumulate = m * work.accumulate;
}

PipelineShape ShapeOf(const PlanPoint& point) {
  return {point.config.layout.schedule, point.config.layout.pipeline, point.config.layout.chunks,
          point.micro_batches()};
}

// What follows from the pipeline's seconds: the bubble, and all that is in proportion to the whole.
void Complete(const PlanPoint& point, double played, StepEstimate& estimate) {
  StepTerms& terms = estimate.terms;
  const double pipeline = std::max(played, estimate.shared_seconds);
  terms.bubble = pipeline - static_cast<double>(point.micro_batches()) * estimate.slowest_seconds;
  terms.slowdown = 0;
  if (point.stack.slowed) {
    terms.slowdown = terms.total() * (point.stack.efficiencies.slowdown - 1);
  }
  estimate.seconds = terms.total();
  estimate.low = estimate.seconds / (1 + point.stack.spread);
  estimate.high = estimate.seconds * (1 + point.stack.spread);
}

}  // namespace

double StepTerms::total() const {
  return matmul + attention + memory + tensor + context + experts + overhead + head + accumulate + gather + bubble +
         data + compress + optimizer + offload + fixed + slowdown;
}

StepEstimate BoundTime(const PlanPoint& point, const ModelAccount& account, std::vector<std::int64_t> blocks) {
  StepEstimate estimate;
  estimate.blocks = std::move(blocks);
  Costs costs = PriceStages(point, account, estimate.blocks);
  const double gathers = AddShardTraffic(point, account, costs, estimate.blocks);
  const ParallelLayout& layout = point.config.layout;

  const StagePlacement placement = PlacementOf(layout);
  // Stages, not virtual stages, are what can be slowest: a stage runs all its chunks.
  std::vector<double> stage_work(static_cast<std::size_t>(layout.pipeline), 0.0);
  for (int virtual_stage = 0; virtual_stage < placement.virtual_stages(); ++virtual_stage) {
    const auto at = static_cast<std::size_t>(virtual_stage);
    const double seconds =
        costs.schedule.forward[at] + costs.schedule.backward_input[at] + costs.schedule.backward_weight[at];
    estimate.stage_seconds.push_back(seconds);
    stage_work[static_cast<std::size_t>(placement.StageOf(virtual_stage))] += seconds;
  }
  const auto slowest = std::max_element(stage_work.begin(), stage_work.end());
  estimate.slowest = static_cast<int>(slowest - stage_work.begin());
  estimate.slowest_seconds = *slowest;
  const double mean =
      std::accumulate(stage_work.begin(), stage_work.end(), 0.0) / static_cast<double>(stage_work.size());
  estimate.slowest_share = mean > 0 ? *slowest / mean : 1;
  estimate.shared_seconds = static_cast<double>(point.micro_batches()) * mean * point.prices.StagesSharing(point);
  StageWork busiest;
  StepParameters heaviest;
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    StepParameters parameters;
    for (int chunk = 0; chunk < layout.chunks; ++chunk) {
      const int here = placement.VirtualStage(stage, chunk);
      const StepParameters own = TrainedOf(point, account, estimate.blocks, here);
      parameters.trained += own.trained;
      parameters.whole += own.whole;
      parameters.experts += own.experts;
      if (stage == estimate.slowest) {
        const StageWork& work = costs.work[static_cast<std::size_t>(here)];
        busiest.blocks += work.blocks;
        busiest.ends += work.ends;
        busiest.accumulate += work.accumulate;
      }
    }
    heaviest = {.trained = std::max(heaviest.trained, parameters.trained),
                .whole = std::max(heaviest.whole, parameters.whole),
                .experts = std::max(heaviest.experts, parameters.experts)};
  }
  FillComputeTerms(point, busiest, estimate.terms);
  if (gathers > 0) {
    const bool gathered = ZeroShards(layout.zero).gradients || layout.offload == Offload::kFull;
    (gathered ? estimate.terms.gather : estimate.terms.offload) =
        static_cast<double>(point.micro_batches()) * *slowest - estimate.terms.total();
  }
  AddStepWork(point, account, heaviest, busiest.blocks.backward_input.total() + busiest.blocks.backward_weight.total(),
              estimate);
  estimate.message = costs.schedule.message;
  estimate.costs = std::move(costs.schedule);
  Complete(point, LeastPipelineSeconds(ShapeOf(point), estimate.costs), estimate);
  return estimate;
}

void PlayTime(const PlanPoint& point, PipelineClock& clock, StepEstimate& estimate) {
  Complete(point, clock.Seconds(ShapeOf(point), estimate.costs), estimate);
}

StepEstimate EstimateTime(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock) {
  StepEstimate estimate = BoundTime(point, account, BlocksOfStages(point));
  PlayTime(point, clock, estimate);
  return estimate;
}

StepEstimate EstimateStep(const PlanPoint& point, const ModelAccount& account, PipelineClock& clock) {
  StepEstimate estimate = EstimateTime(point, account, clock);
  estimate.memory = EstimateMemory(point, account, estimate.blocks, clock);
  return estimate;
}

double ModelFlops(const PlanPoint& point) {
  return ModelFlops(point.config.model, static_cast<double>(point.config.batch.global));
}

}  // namespace trireme
