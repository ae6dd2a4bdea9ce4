#include "planner/validation/calibration.h"

#include <gtest/gtest.h>

#include "planner/fixtures.h"
#include "planner/pricing/step_estimate.h"

namespace trireme {
namespace {

using test::ShippedFiles;

constexpr const char* kTable =
    "id,source,table,cluster,accelerator,gpus,system,layers,hidden,heads,vocab,seq,tp,pp,dp,zero_stage,micro_batch,"
    "global_batch,dtype,activation_recompute\n"
    "a,s,t,jean-zay,a100-80g,384,megatron-ds-3d,72,14336,64,250880,2048,8,12,4,1,1,2048,fp16,1\n"
    "b,s,t,jean-zay,a100-80g,384,megatron-ds-3d,72,14336,64,250880,2048,8,12,4,1,4,2048,fp16,1\n"
    "c,s,t,jean-zay,a100-80g,384,megatron-ds-3d,72,14336,64,250880,2048,4,12,8,1,2,2048,fp16,1\n"
    "d,s,t,jean-zay,a100-80g,384,megatron-ds-3d,72,14336,64,250880,2048,4,6,16,1,2,2048,fp16,1\n"
    "e,s,t,jean-zay,a100-80g,384,megatron-ds-3d,72,14336,64,250880,2048,2,24,8,1,1,2048,fp16,1\n"
    "f,s,t,jean-zay,a100-80g,384,megatron-ds-3d,72,14336,64,250880,2048,8,6,8,1,2,512,fp16,1\n";

// Runs whose seconds a known truth made: the calibration must predict as the truth does.
TEST(Calibration, RecoversATruthThatMadeItsRuns) {
  const PlannerFiles files = ShippedFiles();
  const std::vector<MeasuredRun> runs = ParseRuns(kTable, "x");
  PipelineClock clock;
  std::vector<PricedRun> priced;
  for (const MeasuredRun& run : runs) {
    const Understood understood = Understand(run, files);
    ASSERT_TRUE(understood.point) << understood.reason;
    priced.push_back({.point = *understood.point, .account = ModelAccount(understood.point->config.model)});
  }
  const SoftwareStack& stack = files.stacks[static_cast<std::size_t>(priced[0].point.stack)];
  const Cluster& cluster = files.clusters[static_cast<std::size_t>(priced[0].point.cluster)];
  StackCalibration truth{.cluster = cluster.site, .efficiencies = stack.defaults, .memory = stack.memory};
  truth.efficiencies.matmul *= 0.94;  // as far as sites differ
  truth.efficiencies.layer_seconds *= 1.6;
  std::vector<const PricedRun*> teachers;
  const StackState true_state = StateFor(stack, cluster, MeasuredRun{}, &truth);
  for (PricedRun& run : priced) {
    run.seconds = EstimateTime(run.point.PointUnder(cluster, true_state), run.account, clock).seconds;
    teachers.push_back(&run);
  }
  const PricedRun* held_out = teachers.back();
  teachers.pop_back();
  const StackCalibration fitted = Calibrate(files.clusters, stack, teachers, clock);
  const StackState state = StateFor(stack, cluster, MeasuredRun{}, &fitted);
  const double predicted = EstimateTime(held_out->point.PointUnder(cluster, state), held_out->account, clock).seconds;
  EXPECT_NEAR(predicted / held_out->seconds, 1, 0.03);
  EXPECT_NEAR(fitted.efficiencies.matmul / truth.efficiencies.matmul, 1, 0.05);
  EXPECT_EQ(fitted.runs, 5);
  EXPECT_LT(fitted.spread, 0.05);
}

TEST(Calibration, WithoutRunsTheDefaultsStand) {
  const PlannerFiles files = ShippedFiles();
  PipelineClock clock;
  const StackCalibration none = Calibrate(files.clusters, files.stacks[0], {}, clock);
  EXPECT_EQ(none.efficiencies.matmul, files.stacks[0].defaults.matmul);
  EXPECT_EQ(none.spread, files.stacks[0].default_spread);
}

}  // namespace
}  // namespace trireme
