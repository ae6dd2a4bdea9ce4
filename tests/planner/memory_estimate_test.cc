#include "planner/pricing/memory_estimate.h"

#include <gtest/gtest.h>

#include "cost/communication_memory.h"
#include "cost/rank_tensors.h"
#include "cost/step_cost.h"
#include "planner/fixtures.h"
#include "planner/pricing/step_estimate.h"

namespace trireme {
namespace {

using test::Machine;
using test::SmallGpt;

constexpr double kGibi = 1024.0 * 1024 * 1024;

// Law 5: the planner's memory under our stack is the trainer's own, byte for byte.
void ExpectTrainersBytes(const ModelConfig& model, const ParallelLayout& layout, std::int64_t global_batch,
                         DType moments = DType::kFloat32, const std::string& optimizer = "adamw",
                         DType dtype = DType::kBFloat16, int power_sgd_rank = 0) {
  const Machine machine("dgx-h100", "trireme");
  PlanPoint point = machine.Point(model, layout, global_batch);
  RunConfig& config = point.config;
  config.train.dtype = Name(dtype);
  config.optimizer.moments = Name(moments);
  config.optimizer.kind = FromWord<OptimizerKind>("optimizer", optimizer);
  config.optimizer.powersgd_rank = power_sgd_rank;
  PipelineClock clock;
  const MemoryEstimate estimate = EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock);
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    const StageOfRun run(config, stage, global_batch);
    const MemoryUse use = MemoryOfStage(run.description());
    const double bytes = static_cast<double>(use.total());
    const StageMemory& planned = estimate.stages[static_cast<std::size_t>(stage)];
    EXPECT_EQ(planned.host, static_cast<double>(use[MemoryKind::kHost])) << layout.ToString() << " stage " << stage;
    EXPECT_EQ(planned.total() - planned.fixed, bytes) << layout.ToString() << " stage " << stage;
    std::int64_t held = 0;
    for (const Bucket& bucket : run.description().shards.buckets) {
      held += bucket.count;
    }
    double priced = 0;
    for (int chunk = 0; chunk < layout.chunks; ++chunk) {
      priced += point.prices.Parameters(point, ModelAccount(model), BlocksOfStages(point),
                                        PlacementOf(layout).VirtualStage(stage, chunk), {});
    }
    EXPECT_EQ(priced, static_cast<double>(held)) << "what data collectives move, " << layout.ToString();
  }
  const MemoryEstimate peak = EstimatePeak(point, ModelAccount(model), BlocksOfStages(point), clock);
  EXPECT_EQ(peak.peak, estimate.peak) << layout.ToString();
}

TEST(MemoryEstimate, OfDenseLayersBetweenThoseWithExpertsIsTheTrainersOwn) {
  ModelConfig model{.family = "llama",
                    .layers = 8,
                    .hidden = 64,
                    .heads = 4,
                    .ffn = 160,
                    .vocabulary = 500,
                    .sequence = 64,
                    .experts = {.count = 4, .chosen = 2, .ffn = 96, .shared_ffn = 32}};
  for (const auto& [dense, period] : {std::pair{3, 1}, {0, 2}, {5, 1}, {0, 1}}) {
    model.experts.dense_layers = dense;
    model.experts.period = period;
    for (const ParallelLayout& layout :
         {ParallelLayout{}, ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1},
          ParallelLayout{.pipeline = 4, .data = 2, .zero = 2, .recompute = Recompute::kFull},
          ParallelLayout{.pipeline = 2, .data = 2, .zero = 3, .schedule = "interleaved", .chunks = 2},
          ParallelLayout{.tensor = 2, .sequence_parallel = true, .recompute = Recompute::kLight}}) {
      ExpectTrainersBytes(Completed(model, true), layout, 4 * layout.data);
    }
  }
}

TEST(MemoryEstimate, OfPowerSgdIsTheTrainersOwn) {
  for (const int zero : {0, 1}) {
    ExpectTrainersBytes(SmallGpt(), {.tensor = 2, .pipeline = 2, .data = 2, .zero = zero, .micro_batch = 2}, 8,
                        DType::kFloat32, "adamw", DType::kBFloat16, 4);
  }
}

// Compression takes bytes off the links and adds work that nothing hides: worth it where links are slow.
TEST(StepEstimate, PowerSgdIsWorthItOnSlowLinksAlone) {
  const ModelConfig model = SmallGpt();
  const auto seconds = [&](double bandwidth, int rank) {
    Machine machine("dgx-h100", "trireme");
    machine.cluster.node_link.bandwidth = machine.cluster.device_link.bandwidth = bandwidth;
    PlanPoint point = machine.Point(model, {.data = 64, .zero = 0, .micro_batch = 1}, 64);
    point.config.optimizer.powersgd_rank = rank;
    PipelineClock clock;
    return EstimateTime(point, ModelAccount(model), clock).seconds;
  };
  EXPECT_LT(seconds(1e8, 4), 0.5 * seconds(1e8, 0));
  EXPECT_GT(seconds(1e15, 4), seconds(1e15, 0));
}

TEST(MemoryEstimate, OurStateIsSixteenBytesAParameterAndTwelveWithMomentsInBFloat16) {
  RunConfig config;
  config.model = SmallGpt();
  const StageOfRun run(config, 0, 8);
  const ShardPlan& shards = run.description().shards;
  std::int64_t held = 0;
  for (const Bucket& bucket : shards.buckets) {
    held += bucket.count;
  }
  // Each tensor is rounded up to 256 bytes.
  const std::int64_t rounding = 256 * 5 * static_cast<std::int64_t>(shards.buckets.size());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto& [moments, each] : {std::pair{DType::kFloat32, 16}, {DType::kBFloat16, 12}}) {
      const std::int64_t bytes = StateMemory(shards, {.working = dtype, .moments = moments}).total();
      EXPECT_GE(bytes, each * held);
      EXPECT_LE(bytes, each * held + rounding);
    }
  }
}

TEST(MemoryEstimate, IsTheTrainersOwnAccountOfFloat16OfFewerBitsOfWholeParametersAndOfActivationsInHostMemory) {
  for (const ParallelLayout& layout :
       {ParallelLayout{}, ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1},
        ParallelLayout{.pipeline = 2, .data = 3, .zero = 3, .offload = Offload::kOptimizer},
        ParallelLayout{.data = 2, .zero = 2, .offload = Offload::kFull, .reduce = WireFormat::kBFloat16},
        ParallelLayout{.tensor = 4, .data = 2, .zero = 0, .reduce = WireFormat::kBFloat16},
        ParallelLayout{.data = 2, .zero = 0, .reduce = WireFormat::kInt8},
        ParallelLayout{.pipeline = 2, .data = 2, .micro_batch = 2, .offload_activations = true},
        ParallelLayout{.recompute = Recompute::kFull, .offload_activations = true},
        ParallelLayout{
            .data = 2, .zero = 3, .whole_below = 1000, .reduce = WireFormat::kInt8, .gather = WireFormat::kInt8},
        ParallelLayout{.tensor = 2, .data = 2, .zero = 3, .offload = Offload::kFull, .whole_below = 100'000}}) {
    ExpectTrainersBytes(SmallGpt(), layout, 4 * layout.data, DType::kFloat32, "adamw", DType::kFloat16);
    ExpectTrainersBytes(SmallGpt(), layout, 4 * layout.data);
  }
}

TEST(MemoryEstimate, IsTheTrainersOwnAccountOfEveryOptimizer) {
  for (const char* optimizer : {"sgd", "lion", "adafactor", "muon"}) {
    for (const ParallelLayout& layout :
         {ParallelLayout{}, ParallelLayout{.tensor = 2, .pipeline = 2, .data = 2, .zero = 1},
          ParallelLayout{.pipeline = 2, .data = 3, .zero = 3, .offload = Offload::kOptimizer},
          ParallelLayout{.tensor = 2, .data = 4, .zero = 2, .shard_ranks = 2},
          ParallelLayout{.tensor = 4, .data = 2, .zero = 0}}) {
      ExpectTrainersBytes(SmallGpt(), layout, 4 * layout.data, DType::kFloat32, optimizer);
    }
  }
}

TEST(MemoryEstimate, IsTheTrainersOwnAccountOfDividedSequences) {
  for (const ContextKind kind : {ContextKind::kAllGather, ContextKind::kRing, ContextKind::kUlysses}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective}) {
      const ParallelLayout layout{.tensor = 2,
                                  .context = 4,
                                  .data = 2,
                                  .zero = 1,
                                  .recompute = recompute,
                                  .micro_batch = 2,
                                  .context_kind = kind};
      ExpectTrainersBytes(SmallGpt(), layout, 8, DType::kFloat32, "adamw");
    }
  }
}

TEST(MemoryEstimate, IsTheTrainersOwnAccount) {
  const ModelConfig model = SmallGpt();
  for (const int zero : {0, 1, 2, 3}) {
    for (const Offload offload : {Offload::kNone, Offload::kOptimizer, Offload::kFull}) {
      const ParallelLayout layout{
          .tensor = 2, .pipeline = 2, .data = 2, .zero = zero, .micro_batch = 2, .offload = offload};
      for (const DType moments : {DType::kFloat32, DType::kBFloat16}) {
        ExpectTrainersBytes(model, layout, 16, moments);
      }
    }
  }
  ExpectTrainersBytes(model, {.pipeline = 4, .data = 1, .schedule = "zero_bubble"}, 8);
  ExpectTrainersBytes(model, {.pipeline = 2, .schedule = "interleaved", .chunks = 2, .partition = "balanced"}, 8);
  for (const std::int64_t global_batch : {2, 4, 8}) {
    ExpectTrainersBytes(model, {.pipeline = 4, .schedule = "zero_bubble_v", .chunks = 2, .partition = "balanced"},
                        global_batch);
  }
  ExpectTrainersBytes(model, {.pipeline = 3, .partition = "cost", .recompute = Recompute::kSelective}, 6);
  ExpectTrainersBytes(model, {.tensor = 4, .pipeline = 2, .sequence_parallel = true, .recompute = Recompute::kFull}, 4);
  ExpectTrainersBytes(model, {.pipeline = 2, .recompute = Recompute::kFull, .recompute_layers = 2}, 8);
  const ModelConfig llama = Completed(ModelConfig{
      .family = "llama", .layers = 6, .hidden = 512, .heads = 8, .kv_heads = 2, .vocabulary = 32000, .sequence = 128});
  ExpectTrainersBytes(llama, {.tensor = 2, .pipeline = 3, .data = 4, .zero = 1}, 8);
  ModelConfig adapted = llama;
  adapted.adapter = {.rank = 8, .targets = "attention.qkv, mlp.in"};
  for (const bool tied : {false, true}) {
    adapted.tie_embeddings = tied;
    for (const int zero : {0, 1, 2, 3}) {
      ExpectTrainersBytes(adapted, {.tensor = 2, .pipeline = 3, .data = 4, .zero = zero}, 8);
      ExpectTrainersBytes(adapted, {.data = 2, .zero = zero, .micro_batch = 4}, 8);
    }
  }
  for (const int zero : {0, 1, 2}) {  // one micro batch per step
    ExpectTrainersBytes(model, {.tensor = 2, .data = 4, .zero = zero, .micro_batch = 2}, 8);
    ExpectTrainersBytes(llama, {.data = 2, .zero = zero, .recompute = Recompute::kLight, .micro_batch = 4}, 8);
  }
}

// Gradients over activations: a model of so many tokens that activations outweigh gradients needs room for the larger
// of the two and the ends' gradients; with two micro batches for both.
TEST(MemoryEstimate, GradientsOfOneMicroBatchLieOverActivations) {
  RunConfig config;
  config.model = SmallGpt();
  config.train.dtype = "bf16";
  const auto memory = [&](int micro_batch, int global_batch) {
    config.layout = {.micro_batch = micro_batch};
    config.batch.global = global_batch;
    return MemoryOfStage(StageOfRun(config, 0, global_batch).description());
  };
  const MemoryUse apart = memory(16, 32);
  const MemoryUse over = memory(16, 16);
  ASSERT_GT(apart[MemoryKind::kActivations], apart[MemoryKind::kGradients]);
  EXPECT_EQ(over[MemoryKind::kActivations], apart[MemoryKind::kActivations]);
  // What is left are the tables, which the head's forward adds to, the head's norm and the last block.
  const ParameterTable table(config.model);
  const ShardPlan plan(table, config.layout, StagePartition(config.model, config.layout), 0);
  const auto bytes = [](const Bucket& bucket) { return RoundUp(bucket.count * 4, kPlanAlignment); };
  const std::size_t last = plan.buckets.size() - 1;
  ASSERT_TRUE(plan.buckets[last].tied);
  EXPECT_EQ(over[MemoryKind::kGradients],
            bytes(plan.buckets[last]) + bytes(plan.buckets[last - 1]) + bytes(plan.buckets[last - 2]));
  // Few tokens: all gradients are there at the end, and the activations lie within their room.
  const MemoryUse small = memory(1, 1);
  ASSERT_LT(small[MemoryKind::kActivations], apart[MemoryKind::kGradients]);
  EXPECT_LT(small[MemoryKind::kGradients], apart[MemoryKind::kGradients]);
  EXPECT_GE(small[MemoryKind::kActivations] + small[MemoryKind::kGradients], apart[MemoryKind::kGradients]);
}

TEST(MemoryEstimate, OffloadMovesTheOptimizerToTheHost) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  ParallelLayout layout{.data = 4, .zero = 1};
  PipelineClock clock;
  const auto estimate = [&] {
    const PlanPoint point = machine.Point(model, layout, 4);
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock);
  };
  const MemoryEstimate on_device = estimate();
  layout.offload = Offload::kOptimizer;
  const MemoryEstimate on_host = estimate();
  EXPECT_DOUBLE_EQ(on_device.host_per_node, 4 * on_device.stages[0].host_copy) << "what checkpoints are written from";
  const StageMemory& stage = on_host.stages[0];
  EXPECT_DOUBLE_EQ(stage.host, on_device.stages[0].optimizer);
  EXPECT_NEAR(stage.host_copy / stage.host, 1.2, 1e-3) << "12 bytes of what takes 10";
  EXPECT_DOUBLE_EQ(on_host.host_per_node, 4 * (stage.host + stage.host_copy));
  // Two pieces pass through the device, of 10 bytes a parameter each.
  EXPECT_DOUBLE_EQ(on_device.peak - on_host.peak, on_device.stages[0].optimizer - stage.optimizer);
  EXPECT_LE(stage.optimizer, 2 * 10 * static_cast<double>(kMostHostPiece));
}

TEST(MemoryEstimate, RanksOnTheHostsCoresShareItsMemory) {
  const Machine machine("laptop-cpu", "trireme");
  const ModelConfig model = SmallGpt();
  PipelineClock clock;
  const PlanPoint point = machine.Point(model, {.data = 4, .zero = 1}, 4);
  const MemoryEstimate memory = EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock);
  const StageMemory& stage = memory.stages[0];
  EXPECT_EQ(stage.fixed, 0) << "no context of an accelerator";
  EXPECT_DOUBLE_EQ(memory.host_per_node, 4 * (stage.total() + stage.host_copy));
}

TEST(MemoryEstimate, CommunicatorsAndMessageBuffersAreInTheSum) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  PipelineClock clock;
  const auto fixed = [&](const ParallelLayout& layout) {
    const PlanPoint point = machine.Point(model, layout, 4);
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock).stages[0].fixed;
  };
  const double alone = fixed({});
  // World and data; world, pipeline, tied and two ways with two buffers each.
  EXPECT_DOUBLE_EQ(fixed({.data = 2}) - alone, 2.0 * kCommunicatorBytes);
  const double buffers = 2.0 * 2 * 2 * static_cast<double>(model.sequence * model.hidden);
  EXPECT_DOUBLE_EQ(fixed({.pipeline = 2}) - alone, 5.0 * kCommunicatorBytes + buffers);
}

TEST(MemoryEstimate, WithoutZeroOneDataRankHoldsTheCopyThatIsSaved) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  PipelineClock clock;
  const auto estimate = [&](int tensor, int pipeline, int data) {
    const ParallelLayout layout{
        .tensor = tensor, .pipeline = pipeline, .data = data, .zero = 0, .offload = Offload::kOptimizer};
    const PlanPoint point = machine.Point(model, layout, 16);
    const MemoryEstimate memory = EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock);
    return (memory.host_per_node - 8 * memory.stages[0].host) / memory.stages[0].host_copy;
  };
  EXPECT_NEAR(estimate(1, 1, 8), 1, 1e-9);
  EXPECT_NEAR(estimate(2, 1, 4), 2, 1e-9);
  EXPECT_NEAR(estimate(2, 1, 8), 2, 1e-9) << "of the node that holds data rank 0";
  EXPECT_NEAR(estimate(2, 2, 2), 4, 1e-9);
}

TEST(MemoryEstimate, KindsOfOtherStacksAddUp) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = test::Bloom176b();
  ParallelLayout layout{.tensor = 4,
                        .pipeline = 12,
                        .data = 8,
                        .zero = 1,
                        .partition = "balanced",
                        .recompute = Recompute::kFull,
                        .micro_batch = 2};
  PipelineClock clock;
  const PlanPoint point = machine.Point(model, layout, 2048);
  const MemoryEstimate estimate = EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock);
  const StageMemory& first = estimate.stages.front();
  const StageMemory& last = estimate.stages.back();
  EXPECT_GT(first.accumulation, 0) << "bf16 accumulates in fp32";
  EXPECT_NEAR(first.accumulation / first.weights, 2, 1e-9);
  EXPECT_GT(first.fragmentation, 0);
  EXPECT_GT(first.messages, 0);
  EXPECT_GT(first.activations, last.activations) << "1F1B keeps most micro batches at its start";
  EXPECT_EQ(first.logits, 0);
  EXPECT_GT(last.logits, 0);
}

// By hand, for a token: both norms' outputs in one byte, attention's output once more in one, the second product's
// input in one instead of two.
TEST(MemoryEstimate, ProductsInFloat8KeepTheirInputsInEightBitsWhereTheStackDoes) {
  const ModelConfig model = SmallGpt();
  const auto activations = [&](const std::string& stack, const std::string& dtype) {
    const Machine machine("dgx-h100", stack);
    PlanPoint point = machine.Point(model, {}, 1);
    point.config.train.dtype = dtype;
    PipelineClock clock;
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock).stages.front().activations;
  };
  const double saved =
      static_cast<double>(model.layers * model.sequence * (2 * model.hidden - model.hidden + model.ffn));
  EXPECT_DOUBLE_EQ(activations("megatron-core-2024", "bf16") - activations("megatron-core-2024", "fp8"), saved);
  EXPECT_EQ(activations("torchtitan-2024", "bf16"), activations("torchtitan-2024", "fp8"));
}

TEST(MemoryEstimate, GradientsThatWaitForTheEndOfBackwardTakeThePlaceOfActivations) {
  Machine machine("dgx-h100", "nanotron-2025");
  ASSERT_EQ(machine.state.memory.late_gradients, 2);
  const ModelConfig model = SmallGpt(4);
  const auto scratch = [&](double late, int micro_batch) {
    machine.state.memory.late_gradients = late;
    const PlanPoint point = machine.Point(model, {.micro_batch = micro_batch}, micro_batch);
    PipelineClock clock;
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock).stages.front().scratch;
  };
  EXPECT_GT(scratch(100, 1), scratch(0, 1)) << "many bytes of gradients, few of activations";
  const auto parameters = static_cast<double>(ParameterCount(model));
  EXPECT_NEAR((scratch(200, 1) - scratch(100, 1)) / parameters, 100, 1);
  EXPECT_EQ(scratch(2, 64), scratch(0, 64)) << "activations were more";
  const auto of_data = [&](int zero) {
    const PlanPoint point = machine.Point(model, {.data = 2, .zero = zero}, 2);
    PipelineClock clock;
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock).stages.front().scratch;
  };
  machine.state.memory.late_gradients = 0;
  machine.state.memory.reduced_copies = 0;
  EXPECT_NEAR((of_data(0) - of_data(1)) / parameters, 2, 0.02) << "buckets of DDP";
}

TEST(MemoryEstimate, CopiesOfReducedGradientsTakeThePlaceOfAllThatABackwardKept) {
  Machine machine("dgx-h100", "nanotron-2025");
  machine.state.memory.late_gradients = 0;
  machine.state.memory.ddp_buckets = 0;
  const ModelConfig model = SmallGpt(4);
  const auto total = [&](double copies, int zero, int data, int micro_batch) {
    machine.state.memory.reduced_copies = copies;
    const PlanPoint point =
        machine.Point(model, {.data = data, .zero = zero, .micro_batch = micro_batch}, data * micro_batch);
    PipelineClock clock;
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock).stages.front().total();
  };
  const auto parameters = static_cast<double>(ParameterCount(model));
  EXPECT_NEAR((total(200, 1, 2, 1) - total(100, 1, 2, 1)) / parameters, 100, 1);
  EXPECT_EQ(total(8, 1, 2, 64), total(0, 1, 2, 64)) << "activations were more";
  EXPECT_EQ(total(200, 0, 2, 1), total(0, 0, 2, 1)) << "an all-reduce needs no copy";
  EXPECT_EQ(total(200, 1, 1, 1), total(0, 1, 1, 1)) << "nothing is reduced";
  EXPECT_GT(total(100, 1, 2, 1), total(100, 1, 64, 1)) << "the rank's own part is a copy too";
}

TEST(MemoryEstimate, AContextGrowsWithTheUnitsOfAChip) {
  const ModelConfig model = SmallGpt(4);
  const auto fixed = [&](const std::string& cluster) {
    const Machine machine(cluster, "megatron-core-2024");
    const PlanPoint point = machine.Point(model, {}, 1);
    PipelineClock clock;
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock).stages.front().fixed;
  };
  constexpr double kMebi = 1024.0 * 1024;
  EXPECT_DOUBLE_EQ(fixed("dgx-h100") - fixed("dgx-a100"), 3 * kMebi * (132 - 108));
  EXPECT_EQ(fixed("adastra"), fixed("dgx-a100")) << "of HIP nothing is known";
}

TEST(MemoryEstimate, WhatTheHostCannotHoldGoesToNvmeWhereTheStackUsesIt) {
  const Machine machine("dgx-h100", "hf-deepspeed-2023");
  const ModelConfig model = test::Bloom176b();
  const ParallelLayout layout{.data = 8, .zero = 3, .recompute = Recompute::kFull, .offload = Offload::kFull};
  PipelineClock clock;
  const PlanPoint point = machine.Point(model, layout, 8);
  const MemoryEstimate estimate = EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock);
  EXPECT_DOUBLE_EQ(estimate.host_per_node, machine.cluster.job_memory());
  EXPECT_GT(estimate.nvme_per_node, 0);
  StackState without = machine.state;
  without.time.nvme_offload = false;
  const PlanPoint refused = point.Under(without);
  const MemoryEstimate too_much = EstimateMemory(refused, ModelAccount(model), BlocksOfStages(refused), clock);
  EXPECT_GT(too_much.host_per_node, machine.cluster.job_memory());
  EXPECT_EQ(too_much.nvme_per_node, 0);
}

TEST(MemoryEstimate, TheirUniformPartitionRoundsUp) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Completed(ModelConfig{
      .family = "gpt2", .layers = 78, .hidden = 13824, .heads = 96, .vocabulary = 250880, .sequence = 2048});
  const PlanPoint point = machine.Point(model, {.tensor = 4, .pipeline = 12, .data = 8, .micro_batch = 2}, 2048);
  EXPECT_EQ(BlocksOfStages(point), (std::vector<std::int64_t>{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1}));
}

TEST(MemoryEstimate, BloomsLayoutFitsAndATensorDegreeOfTwoDoesNot) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = test::Bloom176b();
  PipelineClock clock;
  const auto peak = [&](const ParallelLayout& layout) {
    const PlanPoint point = machine.Point(model, layout, 2048);
    return EstimateMemory(point, ModelAccount(model), BlocksOfStages(point), clock).peak / kGibi;
  };
  EXPECT_LT(peak({.tensor = 4,
                  .pipeline = 12,
                  .data = 8,
                  .zero = 1,
                  .partition = "balanced",
                  .recompute = Recompute::kFull,
                  .micro_batch = 2}),
            75);
  EXPECT_GT(peak({.tensor = 2,
                  .pipeline = 6,
                  .data = 32,
                  .zero = 1,
                  .partition = "balanced",
                  .recompute = Recompute::kFull,
                  .micro_batch = 2}),
            85);
}

}  // namespace
}  // namespace trireme
