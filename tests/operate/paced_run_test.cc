// A paced run is the trainer's own: it counts what law 5 predicts, takes about what the planner predicts, and shows
// what the planner cannot know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "operate/paced_bench.h"
#include "planner/pricing/step_estimate.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

using test::kPacedCluster;
using test::kPacedStack;
using test::PacedConfig;
using test::PacedOutcome;
using test::RunPaced;

constexpr double kAgree = 0.03;

double Planned(const RunConfig& config) {
  const Cluster cluster = ParseCluster(kPacedCluster, "test");
  const StackState stack = Resolve(ParseStack(kPacedStack, "test"), cluster, "");
  const ModelAccount account(config.model);
  PipelineClock clock;
  const PlanPoint point{.cluster = cluster, .stack = stack, .config = config};
  return EstimateTime(point, account, clock).seconds;
}

void ExpectPlannedTime(const RunConfig& config) {
  const PacedOutcome outcome = RunPaced(config);
  EXPECT_THAT(outcome.accounting, testing::IsEmpty());
  EXPECT_EQ(outcome.updates, 2);
  EXPECT_NEAR(outcome.seconds.back() / Planned(config), 1, kAgree) << config.layout.ToString();
}

TEST(PacedRun, OneRankTakesWhatThePlannerSays) { ExpectPlannedTime(PacedConfig()); }

TEST(PacedRun, TensorAndDataAxesTakeWhatThePlannerSays) {
  RunConfig config = PacedConfig();
  config.layout.tensor = 2;
  config.layout.data = 4;
  config.layout.zero = 1;
  config.batch.global = 64;
  ExpectPlannedTime(config);
}

TEST(PacedRun, ChosenFloat8ProductsTakeWhatThePlannerSays) {
  RunConfig config = PacedConfig();
  config.train.dtype = "fp8";
  for (const char* products : {"all", "none", "qkv", "ffn_in,ffn_out"}) {
    SCOPED_TRACE(products);
    config.train.fp8_products = products;
    ExpectPlannedTime(config);
  }
}

TEST(PacedRun, PeaksAreThoseOfTheType) {
  const auto cluster =
      PriceCluster(PacedConfig(), ParseCluster(kPacedCluster, "test"), ParseStack(kPacedStack, "test"));
  EXPECT_DOUBLE_EQ(cluster->peak_flops(DType::kFloat32), 1e12);
  EXPECT_DOUBLE_EQ(cluster->peak_flops(DType::kBFloat16), 4e12);
  EXPECT_DOUBLE_EQ(cluster->peak_flops(DType::kFloat8E4M3), 8e12);
}

TEST(PacedRun, InterleavedStagesWithZeroTakeWhatThePlannerSays) {
  RunConfig config = PacedConfig();
  config.layout.tensor = 2;
  config.layout.data = 2;
  config.layout.pipeline = 4;
  config.layout.chunks = 2;
  config.layout.schedule = "interleaved";
  config.layout.zero = 1;
  config.batch.global = 64;
  ExpectPlannedTime(config);
}

TEST(PacedRun, ZeroBubbleTakesWhatThePlannerSays) {
  RunConfig config = PacedConfig();
  config.layout.pipeline = 4;
  config.layout.schedule = "zero_bubble";
  config.batch.global = 32;
  ExpectPlannedTime(config);
}

TEST(PacedRun, TheSameRunTakesTheSameTime) {
  RunConfig config = PacedConfig();
  config.layout.pipeline = 2;
  config.layout.data = 2;
  EXPECT_EQ(RunPaced(config).seconds, RunPaced(config).seconds);
}

// The planner knows of no slow rank: a run that played its timeline would not show one.
TEST(PacedRun, ASlowRankShowsInTheStep) {
  RunConfig config = PacedConfig();
  config.layout.pipeline = 2;
  config.layout.data = 2;
  const double usual = RunPaced(config).seconds.back();
  const double pause = usual;
  for (const int slow : {1, 3}) {
    const double slowed = RunPaced(config, slow, pause).seconds.back();
    EXPECT_GT(slowed, usual + 0.5 * pause) << slow;
    EXPECT_LT(slowed, usual + 1.01 * pause) << slow;
  }
}

// One micro batch at a time through all stages: no two stages work at once.
std::string OneAtATime(int stages, int micro_batches) {
  std::string text =
      fmt::format("trireme-schedule 1 name=slow stages={} chunks=1 micro_batches={}\n", stages, micro_batches);
  for (int stage = 0; stage < stages; ++stage) {
    text += fmt::format("stage {}:", stage);
    for (int i = 0; i < micro_batches; ++i) {
      text += fmt::format(" F0.{} B0.{}", i, i);
    }
    text += "\n";
  }
  return text;
}

TEST(PacedRun, TheScheduleThatIsExecutedSetsTheTime) {
  RunConfig config = PacedConfig();
  config.layout.pipeline = 4;
  config.batch.global = 16;
  const double usual = RunPaced(config).seconds.back();
  const std::string path = testing::TempDir() + "/one_at_a_time.schedule";
  std::ofstream(path) << OneAtATime(4, 16);
  config.layout.schedule = path;
  const double slow = RunPaced(config).seconds.back();
  // 16 micro batches through 4 stages: 16 x 4 instead of 16 + 3 turns.
  EXPECT_GT(slow, 2.5 * usual);
  EXPECT_NEAR(slow / Planned(config), 1, kAgree);
}

TEST(PacedRun, NeedsAClusterAndThreads) {
  RunConfig config = PacedConfig();
  config.train.paced_cluster = "";
  EXPECT_THROW(Validate(config, 0), Error);
  config.train.device = "cpu";
  config.train.paced_cluster = "perlmutter";
  EXPECT_THROW(Validate(config, 0), Error);
}

}  // namespace
}  // namespace trireme
