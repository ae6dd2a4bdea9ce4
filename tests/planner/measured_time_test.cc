#include "planner/pricing/measured_time.h"

#include <gtest/gtest.h>

#include "planner/fixtures.h"
#include "planner/pricing/measured_prices.h"
#include "planner/pricing/step_estimate.h"

namespace trireme {
namespace {

using test::ShippedCluster;
using test::ShippedStack;

// Every operation costs its work at a given rate and nothing for the call.
Cluster Measured(int cores) {
  Cluster cluster = ShippedCluster("laptop-cpu");
  MeasuredRates rates{.date = "2026-11-16", .cores = cores, .spread = 0.07};
  for (const int threads : {1, cores}) {
    RankRates one{.dtype = DType::kFloat32, .threads = threads};
    one.products.fill({.flops = 1e10 * threads});
    one.works.fill({.rate = 1e9 * threads});
    one[RankWork::kAttentionForward].rate = one[RankWork::kAttentionBackward].rate = 1e10 * threads;
    rates.ranks.push_back(one);
  }
  const RateLaw law{.call = 0, .rate = 1e12};
  rates.groups = {{.ranks = 2, .all_reduce = law, .all_gather = law, .reduce_scatter = law, .message = law}};
  cluster.measured = rates;
  return cluster;
}

// Blocks outweigh its ends.
ModelConfig Small() {
  return Completed(
      ModelConfig{.family = "gpt2", .layers = 4, .hidden = 512, .heads = 8, .vocabulary = 512, .sequence = 128});
}

struct Priced {
  explicit Priced(Cluster on, const std::string& stack_name = "trireme")
      : cluster(std::move(on)), state(Resolve(ShippedStack(stack_name), cluster, "")), model(Small()), account(model) {}
  double Seconds(const ParallelLayout& layout, int threads = 0) {
    PipelineClock clock;
    RunConfig config = test::PlannedRun(model, layout, 16);
    config.train.dtype = "fp32";
    config.train.threads = threads;
    return EstimateTime({.cluster = cluster, .stack = state, .config = config}, account, clock).seconds;
  }
  Cluster cluster;
  StackState state;
  ModelConfig model;
  ModelAccount account;
};

TEST(MeasuredTime, RanksDivideTheCores) {
  Priced here(Measured(2));
  const double alone = here.Seconds({});
  // Two ranks with a core each do what one rank with both did.
  EXPECT_NEAR(here.Seconds({.data = 2}) / alone, 1, 0.1);
  // Four ranks on two cores take turns: nothing is won.
  EXPECT_NEAR(here.Seconds({.data = 4}) / alone, 1, 0.15);
  // One thread alone leaves a core idle.
  EXPECT_NEAR(here.Seconds({}, 1) / alone, 2, 0.01);
  // More threads than cores: the rank has both to itself all the same.
  EXPECT_NEAR(here.Seconds({}, 8) / alone, 1, 0.01);
}

TEST(MeasuredTime, StagesThatOutnumberTheCoresFillEachOthersBubble) {
  Priced wide(Measured(4));
  Priced narrow(Measured(2));
  const ParallelLayout pipeline{.pipeline = 4};
  // 16 micro batches over 4 stages: 19 of 16 slots on four cores; on two cores all of the work of 4 stages is shared.
  const double on_four = wide.Seconds(pipeline, 1);
  const double on_two = narrow.Seconds(pipeline, 1);
  EXPECT_GT(on_two, 1.3 * on_four);
  EXPECT_LT(on_two, 2.0 * on_four);
}

TEST(MeasuredTime, GroupsThatShareCoresTakeTurnsCopyingAndNotWaiting) {
  Cluster cluster = Measured(2);
  cluster.measured->groups.front().all_reduce = {.call = 5e-6, .rate = 1e9};
  const Priced here(cluster);
  const GroupPlacement pair{.size = 2, .per_node = 2};
  const auto seconds = [&](const ParallelLayout& layout, double bytes) {
    RunConfig config = test::PlannedRun(here.model, layout, 1);
    config.train.dtype = "fp32";
    config.train.threads = 1;
    const PlanPoint point{.cluster = here.cluster, .stack = here.state, .config = config};
    return MeasuredTime(point).Collective(CollectiveKind::kAllReduce, DType::kFloat32, bytes, 1, pair);
  };
  const ParallelLayout alone{.tensor = 2};
  const ParallelLayout crowded{.tensor = 2, .data = 2};
  EXPECT_DOUBLE_EQ(seconds(alone, 1e6), 5e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(seconds(crowded, 1e6), 5e-6 + 2e-3);
}

TEST(MeasuredTime, RanksBeyondTheCoresTakeTurnsInCollectivesThatWereNotMeasured) {
  Cluster cluster = Measured(2);
  cluster.measured->groups.clear();
  const Priced here(cluster);
  const auto seconds = [&](const ParallelLayout& layout) {
    RunConfig config = test::PlannedRun(here.model, layout, 1);
    config.train.dtype = "fp32";
    config.train.threads = 1;
    const PlanPoint point{.cluster = here.cluster, .stack = here.state, .config = config};
    return MeasuredTime(point).Collective(CollectiveKind::kAllReduce, DType::kFloat32, 1e6, 1,
                                          {.size = 2, .per_node = 2});
  };
  const double alone = seconds({.tensor = 2});
  EXPECT_GT(alone, 0);
  EXPECT_DOUBLE_EQ(seconds({.tensor = 2, .data = 4}), 4 * alone) << "eight ranks on two cores";
}

TEST(MeasuredTime, RecomputationAddsAForward) {
  Priced here(Measured(2));
  const double plain = here.Seconds({});
  const double full = here.Seconds({.recompute = Recompute::kFull});
  EXPECT_GT(full, 1.15 * plain);
  EXPECT_LT(full, 1.4 * plain);
  EXPECT_LT(here.Seconds({.recompute = Recompute::kLight}), 1.2 * plain);
}

TEST(MeasuredTime, ProductsThatStayInBf16ArePricedAsSuch) {
  Cluster cluster = Measured(2);
  for (RankRates& rates : cluster.measured->ranks) {
    rates.dtype = DType::kBFloat16;
  }
  cluster.device.peak_fp8 = 2 * cluster.device.peak_half;
  const Priced here(cluster);
  const auto matmul = [&](const std::string& dtype, const std::string& products) {
    RunConfig config = test::PlannedRun(here.model, {}, 1);
    config.train.dtype = dtype;
    config.train.fp8_products = products;
    const PlanPoint point{.cluster = here.cluster, .stack = here.state, .config = config};
    const ModuleTime time = TimeOfBlock(point, LocalSizes(here.model, {}, point.dtype(), false));
    return time.forward.matmul + time.backward_input.matmul + time.backward_weight.matmul;
  };
  const double native = matmul("bf16", "all");
  EXPECT_DOUBLE_EQ(matmul("fp8", "all"), native / 2);
  EXPECT_DOUBLE_EQ(matmul("fp8", "none"), native);
  // A GPT-2 block has 12 parts: each feed-forward product has 4, those of attention 3 and 1.
  EXPECT_DOUBLE_EQ(matmul("fp8", "ffn_in"), native * (1 - 2.0 / 12));
  EXPECT_DOUBLE_EQ(matmul("fp8", "attention_out"), native * (1 - 0.5 / 12));
}

TEST(MeasuredTime, PricesOurStackAloneAndOnlyMeasuredTypes) {
  const Cluster measured = Measured(2);
  const Priced ours(measured);
  const Priced theirs(measured, "megatron-lm-2021");
  const auto by_rates = [](const Priced& place, DType dtype) {
    return dynamic_cast<const MeasuredPrices*>(&ChoosePrices(place.cluster, place.state, dtype)) != nullptr;
  };
  EXPECT_TRUE(by_rates(ours, DType::kFloat32));
  EXPECT_FALSE(by_rates(ours, DType::kBFloat16));
  EXPECT_FALSE(by_rates(theirs, DType::kFloat32));
  EXPECT_TRUE(ours.state.calibrated);
  EXPECT_DOUBLE_EQ(ours.state.spread, 0.07);
  EXPECT_FALSE(theirs.state.calibrated);
}

}  // namespace
}  // namespace trireme
