#include "planner/pricing/step_estimate.h"

#include <gtest/gtest.h>

#include "cost/formulas.h"
#include "cost/module_cost.h"
#include "cost/step_cost.h"
#include "planner/fixtures.h"

namespace trireme {
namespace {

using test::Bloom176b;
using test::Machine;

const ParallelLayout kBloom{.tensor = 4,
                            .pipeline = 12,
                            .data = 8,
                            .zero = 1,
                            .partition = "balanced",
                            .recompute = Recompute::kFull,
                            .micro_batch = 2};

TEST(StepEstimate, PredictsBloomsStep) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Bloom176b();
  PipelineClock clock;
  const PlanPoint point = machine.Point(model, kBloom, 2048);
  const StepEstimate estimate = EstimateStep(point, ModelAccount(model), clock);
  // The run reported about 150 TFLOP/s, or 105 s.
  EXPECT_NEAR(estimate.seconds, 105, 5);
  EXPECT_LT(estimate.low, estimate.seconds);
  EXPECT_GT(estimate.high, estimate.seconds);
  EXPECT_NEAR(estimate.terms.total(), estimate.seconds, 1e-9 * estimate.seconds);
  EXPECT_EQ(estimate.memory.stages.size(), 12U);
}

TEST(StepEstimate, TheLeastIsNeverMoreThanTheWhole) {
  const ModelConfig model = Bloom176b();
  PipelineClock clock;
  for (const char* stack : {"trireme", "megatron-ds-2022"}) {
    const Machine machine("dgx-h100", stack);
    for (const int micro_batch : {1, 4}) {
      ParallelLayout layout = kBloom;
      layout.micro_batch = micro_batch;
      const PlanPoint point = machine.Point(model, layout, 2048);
      const StepEstimate estimate = EstimateTime(point, ModelAccount(model), clock);
      const double least = BoundTime(point, ModelAccount(model), estimate.blocks).seconds;
      EXPECT_LE(least, estimate.seconds * (1 + 1e-12));
      EXPECT_GT(least, 0.9 * estimate.seconds);
    }
  }
}

TEST(StepEstimate, HardwareFlopsFollowThePublishedFormula) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Completed(ModelConfig{
      .family = "gpt2", .layers = 72, .hidden = 14336, .heads = 64, .vocabulary = 250880, .sequence = 2048});
  const PlanPoint point = machine.Point(model, kBloom, 2048);
  const double h = 14336;
  const double formula = 24.0 * 4 * 2048 * 2048 * 72 * h * h * (1 + 2048 / (6 * h) + 250880 / (16.0 * 72 * h));
  EXPECT_NEAR(point.prices.HardwareFlops(point, ModelAccount(point.config.model)) / formula, 1, 1e-9);
  // 110.4 s on 384 devices were published as 146.00 TFLOP/s.
  EXPECT_NEAR(point.prices.HardwareFlops(point, ModelAccount(point.config.model)) / 110.4 / 384 / 1e12, 146.0, 0.1);
}

// Law 5: the planner's FLOPs under our stack are the trainer's own, to the FLOP.
void ExpectTrainersFlops(const ModelConfig& model, const ParallelLayout& layout, std::int64_t global_batch) {
  const Machine machine("dgx-h100", "trireme");
  const PlanPoint point = machine.Point(model, layout, global_batch);
  RunConfig config;
  config.model = model;
  config.layout = layout;
  config.batch.global = global_batch;
  config.train.dtype = "bf16";
  std::int64_t flops = 0;
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    const StageOfRun run(config, stage, global_batch);
    flops += CostOfStep(run.description(), 0).flops.total() * layout.tensor * layout.replicas();
  }
  EXPECT_EQ(point.prices.HardwareFlops(point, ModelAccount(point.config.model)), static_cast<double>(flops))
      << layout.ToString();
  EXPECT_EQ(ModelFlops(point), ModelFlops(model, static_cast<double>(global_batch))) << layout.ToString();
}

TEST(StepEstimate, ABlockIsTheMeanOfTheModelsLayers) {
  const Machine machine("dgx-h100", "trireme");
  const auto seconds = [&](std::int64_t period, const char* types) {
    ModelConfig model{.family = "llama", .layers = 6, .hidden = 2048, .heads = 16, .sequence = 4096};
    model.window = 512;
    model.window_period = period;
    model.layer_types = types;
    const PlanPoint point = machine.Point(Completed(model), {.micro_batch = 1}, 1);
    return TimeOfBlock(point, point.prices.Sizes(point)).total();
  };
  EXPECT_DOUBLE_EQ(seconds(3, ""), seconds(0, "2*sliding, full"));
  EXPECT_DOUBLE_EQ(seconds(0, "full, 2*sliding"), seconds(0, "2*sliding, full"));
  EXPECT_NEAR(seconds(0, "full, sliding"), (seconds(0, "full") + seconds(0, "sliding")) / 2, 1e-12);
  EXPECT_LT(seconds(0, "full_nope"), seconds(0, "full")) << "queries and keys are not turned";
  EXPECT_NEAR(seconds(0, "full, full_nope"), (seconds(0, "full") + seconds(0, "full_nope")) / 2, 1e-12);
}

TEST(StepEstimate, FlopsAreTheTrainersOwn) {
  const ModelConfig model = test::SmallGpt();
  ExpectTrainersFlops(model, {.micro_batch = 4}, 4);
  ExpectTrainersFlops(model, {.tensor = 2, .pipeline = 2, .data = 2, .zero = 3, .micro_batch = 2}, 16);
  ExpectTrainersFlops(model, {.pipeline = 4, .schedule = "zero_bubble", .recompute = Recompute::kSelective}, 8);
  ExpectTrainersFlops(model, {.pipeline = 2, .schedule = "interleaved", .chunks = 2, .partition = "balanced"}, 8);
  ExpectTrainersFlops(model, {.pipeline = 2, .schedule = "zero_bubble_v", .chunks = 2, .partition = "balanced"}, 8);
  ExpectTrainersFlops(model, {.pipeline = 3, .partition = "cost", .recompute = Recompute::kSelective}, 6);
  ExpectTrainersFlops(model, {.tensor = 4, .pipeline = 2, .sequence_parallel = true, .recompute = Recompute::kFull}, 4);
  ExpectTrainersFlops(model, {.pipeline = 2, .recompute = Recompute::kFull, .recompute_layers = 2}, 8);
  const ModelConfig llama = Completed(ModelConfig{
      .family = "llama", .layers = 6, .hidden = 512, .heads = 8, .kv_heads = 2, .vocabulary = 32000, .sequence = 128});
  ExpectTrainersFlops(llama, {.tensor = 2, .pipeline = 3, .data = 4, .zero = 1}, 8);
  ExpectTrainersFlops(llama, {.tensor = 2, .context = 4, .data = 2, .zero = 1}, 8);
  ModelConfig mixed = llama;
  mixed.window = 32;
  mixed.layer_types = "full, sliding_nope, sliding";
  mixed = Completed(mixed, true);
  ExpectTrainersFlops(mixed, {.tensor = 2, .pipeline = 2, .data = 2, .zero = 1, .partition = "1,5"}, 8);
  ExpectTrainersFlops(mixed, {.pipeline = 2, .recompute = Recompute::kFull, .recompute_layers = 2}, 8);
}

// The seconds that the planner prices are of the products that cost counts.
TEST(StepEstimate, PricedProductsAreThoseThatCostCounts) {
  const Machine machine("dgx-h100", "trireme");
  StackState state = machine.state;
  state.time.wave_weight = 0;
  Cluster cluster = machine.cluster;
  cluster.device.memory_bandwidth = 1e20;
  const ModelConfig model = Completed(ModelConfig{
      .family = "llama", .layers = 4, .hidden = 1024, .heads = 8, .kv_heads = 2, .vocabulary = 32000, .sequence = 256});
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    const ParallelLayout layout{.tensor = 2, .recompute = recompute, .micro_batch = 2};
    const PlanPoint point{.cluster = cluster, .stack = state, .config = test::PlannedRun(model, layout, 2)};
    const LocalSizes sizes(model, layout, point.dtype(), false);
    const ModuleCost cost = CostOfBlock(sizes, model);
    const ModuleTime time = TimeOfBlock(point, sizes);
    const std::int64_t attention = recompute == Recompute::kFull ? cost.forward.flops.attention : 0;
    const double counted =
        static_cast<double>(cost.forward.flops.matmul + cost.backward_input.flops.matmul +
                            cost.backward_input.flops.recomputed - attention + cost.backward_weight.flops.matmul);
    const double seconds = time.forward.matmul + time.backward_input.matmul + time.backward_weight.matmul;
    EXPECT_NEAR(seconds * cluster.device.Peak(point.dtype()) * state.efficiencies.matmul / counted, 1, 1e-9);
  }
}

TEST(StepEstimate, ZeroThreePaysForItsGathersEachMicroBatch) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 32, .hidden = 4096, .heads = 32, .vocabulary = 50304, .sequence = 2048});
  PipelineClock clock;
  ParallelLayout layout{.data = 64, .zero = 1, .micro_batch = 1};
  const double one = EstimateTime(machine.Point(model, layout, 512), ModelAccount(model), clock).seconds;
  layout.zero = 3;
  const StepEstimate three = EstimateTime(machine.Point(model, layout, 512), ModelAccount(model), clock);
  EXPECT_GT(three.terms.gather, 0);
  EXPECT_GT(three.seconds, one);
}

TEST(StepEstimate, MomentsInBFloat16MoveTwentyBytesInsteadOfTwentyEight) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = test::SmallGpt();
  PipelineClock clock;
  PlanPoint point = machine.Point(model, {.data = 4, .zero = 1}, 8);
  const double whole = EstimateTime(point, ModelAccount(model), clock).terms.optimizer;
  point.config.optimizer.moments = "bf16";
  EXPECT_NEAR(EstimateTime(point, ModelAccount(model), clock).terms.optimizer / whole, 20.0 / 28, 1e-9);
}

TEST(StepEstimate, StateInHostMemoryCostsTheSlowestOfLinkAndMemories) {
  Machine machine("dgx-h200", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 32, .hidden = 4096, .heads = 32, .vocabulary = 50304, .sequence = 2048});
  const ModelAccount account(model);
  const auto terms = [&](int data) {
    PipelineClock clock;
    const ParallelLayout layout{.data = data, .zero = 1, .micro_batch = 1, .offload = Offload::kOptimizer};
    return EstimateTime(machine.Point(model, layout, 16), account, clock).terms;
  };
  const auto parameters = static_cast<double>(account.ParametersOf({.data = 8}, {.dense = 32}, true, true));
  const Efficiencies& e = machine.state.efficiencies;
  // Lower halves and two moments, 10 bytes, each way. Eight ranks share the node's memory, one does not.
  machine.cluster.host_bandwidth = 1e15;
  EXPECT_NEAR(terms(8).offload / (parameters / 8 * 10 / (machine.cluster.host_link.bandwidth * e.host_link)), 1, 1e-3);
  EXPECT_EQ(terms(8).optimizer, 0);
  machine.cluster.host_bandwidth = 100e9;
  EXPECT_NEAR(terms(8).offload / (parameters * 20 / (100e9 * e.host_memory)), 1, 1e-3);
  EXPECT_NEAR(terms(1).offload / terms(8).offload, 1, 1e-2) << "each holds its share";
}

// They pass the link in both directions, under the computation as far as that goes.
TEST(StepEstimate, ActivationsInHostMemoryCostWhatTheLinkTakesBeyondTheComputation) {
  Machine machine("dgx-h200", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 32, .hidden = 4096, .heads = 32, .vocabulary = 50304, .sequence = 2048});
  const auto estimate = [&](Recompute recompute, bool offload) {
    PipelineClock clock;
    const ParallelLayout layout{.recompute = recompute, .micro_batch = 4, .offload_activations = offload};
    return EstimateStep(machine.Point(model, layout, 8), ModelAccount(model), clock);
  };
  const StepEstimate here = estimate(Recompute::kFull, false);
  const StepEstimate away = estimate(Recompute::kFull, true);
  EXPECT_NEAR(away.seconds / here.seconds, 1, 0.05) << "inputs of blocks are few bytes";
  EXPECT_LT(away.memory.stages[0].activations, 0.2 * here.memory.stages[0].activations);
  EXPECT_GT(away.memory.stages[0].host, 0.9 * here.memory.stages[0].activations);
  EXPECT_GT(estimate(Recompute::kNone, true).terms.offload, 10 * away.terms.offload + 0.01);
  machine.cluster.host_link.bandwidth *= 100;
  machine.cluster.host_bandwidth *= 100;
  EXPECT_LT(estimate(Recompute::kNone, true).terms.offload, 0.05 * estimate(Recompute::kNone, true).seconds);
}

// 64 data ranks on eight nodes, where ZeRO 3 waits for its messages.
StepTerms TermsOfShards(const ParallelLayout& choices) {
  const Machine machine("dgx-h200", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 32, .hidden = 4096, .heads = 32, .vocabulary = 50304, .sequence = 2048});
  PipelineClock clock;
  ParallelLayout layout = choices;
  layout.data = 64;
  return EstimateTime(machine.Point(model, layout, 128), ModelAccount(model), clock).terms;
}

TEST(StepEstimate, FewerBitsSentTakeLess) {
  const double exact = TermsOfShards({.zero = 3}).gather;
  const double weights = TermsOfShards({.zero = 3, .gather = WireFormat::kInt8}).gather;
  const double both = TermsOfShards({.zero = 3, .reduce = WireFormat::kInt8, .gather = WireFormat::kInt8}).gather;
  EXPECT_GT(exact, weights);
  EXPECT_GT(weights, both);
  EXPECT_GT(both, 0);
  EXPECT_GT(TermsOfShards({.zero = 1}).data, TermsOfShards({.zero = 1, .reduce = WireFormat::kBFloat16}).data);
  EXPECT_GT(TermsOfShards({.zero = 1, .reduce = WireFormat::kBFloat16}).data,
            TermsOfShards({.zero = 1, .reduce = WireFormat::kInt8}).data);
}

// What stays whole is gathered and reduced once a step, not for each use.
TEST(StepEstimate, ParametersThatStayWholeAreNotGathered) {
  const StepTerms sharded = TermsOfShards({.zero = 3});
  const StepTerms vectors = TermsOfShards({.zero = 3, .whole_below = 100'000});
  const StepTerms all = TermsOfShards({.zero = 3, .whole_below = 1'000'000'000});
  EXPECT_LT(vectors.gather, sharded.gather);
  EXPECT_EQ(all.gather, 0);
  EXPECT_EQ(sharded.data, 0);
  EXPECT_GT(vectors.data, 0);
  const StepTerms stage1 = TermsOfShards({.zero = 1});
  EXPECT_NEAR(all.data / stage1.data, 1, 1e-9);
}

TEST(StepEstimate, WeightsInHostMemoryComeForEachMicroBatch) {
  const Machine machine("dgx-h200", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 32, .hidden = 4096, .heads = 32, .vocabulary = 50304, .sequence = 2048});
  const auto terms = [&](Offload offload, std::int64_t global_batch) {
    PipelineClock clock;
    const ParallelLayout layout{.micro_batch = 1, .offload = offload};
    return EstimateTime(machine.Point(model, layout, global_batch), ModelAccount(model), clock).terms;
  };
  EXPECT_EQ(terms(Offload::kOptimizer, 4).gather, 0);
  EXPECT_GT(terms(Offload::kFull, 4).gather, 0);
  EXPECT_NEAR(terms(Offload::kFull, 8).gather / terms(Offload::kFull, 4).gather, 2, 1e-6);
  // Two bytes beside ten.
  EXPECT_NEAR(terms(Offload::kFull, 4).offload / terms(Offload::kOptimizer, 4).offload, 1.2, 1e-6);
}

TEST(StepEstimate, ASlowRevisionSlowsAll) {
  const SoftwareStack stack = test::ShippedStack("megatron-ds-2022");
  const Cluster cluster = test::ShippedCluster("jean-zay-a100");
  const ModelConfig model = Bloom176b();
  PipelineClock clock;
  const auto seconds = [&](const std::string& date) {
    const StackState state = Resolve(stack, cluster, date);
    RunConfig config = test::PlannedRun(model, kBloom, 2048);
    config.train.dtype = "fp16";
    config.train.attention = AttentionEngine::kPlain;
    const PlanPoint point{.cluster = cluster, .stack = state, .config = config};
    return EstimateTime(point, ModelAccount(model), clock).seconds;
  };
  const double slowdown = Resolve(stack, cluster, "").efficiencies.slowdown;
  EXPECT_NEAR(seconds("2022-02-20") / seconds("2022-02-26"), slowdown, 1e-9);
}

}  // namespace
}  // namespace trireme
