#include "planner/step_estimate.h"

#include <gtest/gtest.h>

#include "cost/module_cost.h"
#include "planner/fixtures.h"

namespace trireme {
namespace {

using ::trireme::testing::Bloom176b;
using ::trireme::testing::Machine;

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
      EXPECT_LE(LeastSeconds(point, estimate.blocks), estimate.seconds);
      EXPECT_GT(LeastSeconds(point, estimate.blocks), 0.5 * estimate.seconds);
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
  EXPECT_NEAR(HardwareFlops(point) / formula, 1, 1e-9);
  // 110.4 s on 384 devices were published as 146.00 TFLOP/s.
  EXPECT_NEAR(HardwareFlops(point) / 110.4 / 384 / 1e12, 146.0, 0.1);
}

TEST(StepEstimate, ModelFlopsCountWhatTheTrainerCounts) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = testing::SmallGpt();
  const ParallelLayout layout{.micro_batch = 4};
  const PlanPoint point = machine.Point(model, layout, 4);
  const LocalSizes sizes(model, layout, DType::kBFloat16, false);
  const ModuleCost block = CostOfBlock(sizes, model);
  const ModuleCost head = CostOfHead(sizes, HeadChunk(sizes, 0));
  const std::int64_t matmul =
      8 * (block.forward.flops.matmul + block.backward_input.flops.matmul + block.backward_weight.flops.matmul) +
      head.forward.flops.matmul;
  const double attention = 3.0 * 8 * 4 * 256 * 4 * 256 * 512;  // all pairs; the trainer skips what the mask hides
  EXPECT_NEAR(ModelFlops(point), static_cast<double>(matmul) + attention, 1e-6 * ModelFlops(point));
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

TEST(StepEstimate, ASlowRevisionSlowsAll) {
  const SoftwareStack stack = testing::ShippedStack("megatron-ds-2022");
  const Cluster cluster = testing::ShippedCluster("jean-zay-a100");
  const ModelConfig model = Bloom176b();
  PipelineClock clock;
  const auto seconds = [&](const std::string& date) {
    const StackState state = Resolve(stack, cluster, date);
    const PlanPoint point{.cluster = cluster,
                          .stack = state,
                          .model = model,
                          .layout = kBloom,
                          .global_batch = 2048,
                          .dtype = DType::kFloat16,
                          .flash = false};
    return EstimateTime(point, ModelAccount(model), clock).seconds;
  };
  const double slowdown = Resolve(stack, cluster, "").efficiencies.slowdown;
  EXPECT_NEAR(seconds("2022-02-20") / seconds("2022-02-26"), slowdown, 1e-9);
}

}  // namespace
}  // namespace trireme
