// A paced run is the trainer's own: it counts what law 5 predicts, takes about what the planner predicts, and shows
// what the planner cannot know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "operate/paced_prices.h"
#include "operate/training_loop.h"
#include "planner/step_estimate.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

constexpr double kAgree = 0.03;

// Two nodes of four devices, slow enough for the tests' model that devices work and hosts wait.
constexpr char kCluster[] = R"(
name = "test-cluster"
nodes = 64
devices_per_node = 4
[device]
name = "slow chip"
memory_gib = 80
memory_bandwidth_gbs = 400
units = 1
peak_tflops = { fp32 = 1, bf16 = 4, fp8 = 8 }
[links.device]
latency_us = 3
bandwidth_gbs = 60
[links.node]
latency_us = 10
bandwidth_gbs = 12
cards = 4
[links.host]
latency_us = 10
bandwidth_gbs = 16
[host]
memory_gib = 64
bandwidth_gbs = 100
)";

// A stack as ours, in short: the figures of stacks/trireme.toml.
constexpr char kStack[] = R"(
name = "trireme"
[policy]
counted_costs = true
strict_partition = true
any_schedule = true
staged_offload = true
[time]
wave_weight = 1
gradient_bytes = 4
parameter_bytes = 2
gradient_bytes_bf16 = 4
accumulate_bytes = 8
optimizer_bytes = 28
data_overlap = 0.7
gather_overlap = 0.8
[efficiency]
matmul = 0.72
flash = 0.58
memory = 0.85
tensor_link = 0.65
tensor_node_link = 0.6
data_device_link = 0.65
data_link = 0.6
message_link = 0.6
layer_seconds = 0.0002
step_seconds = 0.006
)";

RunConfig PacedConfig() {
  RunConfig config;
  config.model.family = "gpt2";
  config.model.layers = 8;
  config.model.hidden = 1024;
  config.model.heads = 16;
  config.model.vocabulary = 8192;
  config.model.sequence = 512;
  config.model = Completed(config.model);
  config.batch.global = 16;
  config.train.dtype = "bf16";
  config.train.device = "paced";
  config.train.paced_cluster = "test-cluster";
  config.train.steps = 2;
  return config;
}

struct PacedOutcome {
  std::vector<double> seconds;  // of rank 0's steps
  std::vector<std::string> accounting;
  std::vector<double> losses;
  int updates = 0;
};

void CompareCounts(Trainer& trainer, std::int64_t batch, std::vector<std::string>& found) {
  const StepCost predicted = trainer.Predicted(batch);
  const StepCost counted = trainer.Counted();
  if (!(predicted.flops == counted.flops)) {
    found.push_back(fmt::format("rank {}: FLOPs", trainer.world().rank()));
  }
  if (!(predicted.memory == counted.memory)) {
    found.push_back(fmt::format("rank {}: memory", trainer.world().rank()));
  }
}

// slow: a rank other than 0 that stands still for `pause` seconds before every step.
PacedOutcome RunPaced(const RunConfig& config, int slow = -1, double pause = 0) {
  Validate(config, config.layout.ranks());
  const std::unique_ptr<SampleSource> source = OpenRunSource(config, "train");
  const DeviceOptions options{
      .kind = "paced", .paced = PriceCluster(config, ParseCluster(kCluster, "test"), ParseStack(kStack, "test"))};
  PacedOutcome outcome;
  std::mutex mutex;
  RunThreadRanks(config.layout.ranks(), options, [&](RankContext& context) {
    Trainer trainer(config, context, {.train = source.get(), .validation = nullptr});
    for (int step = 0; step < 2; ++step) {
      if (context.world.rank() == slow) {
        context.device.Pause(pause);
      }
      const StepResult result = trainer.Step();
      const std::scoped_lock lock(mutex);
      if (step == 0) {
        CompareCounts(trainer, config.batch.global, outcome.accounting);
      }
      if (context.world.rank() == 0) {
        outcome.seconds.push_back(result.seconds);
        outcome.losses.push_back(result.loss);
        outcome.updates += result.skipped ? 0 : 1;
      }
    }
  });
  return outcome;
}

double Planned(const RunConfig& config) {
  const Cluster cluster = ParseCluster(kCluster, "test");
  const StackState stack = Resolve(ParseStack(kStack, "test"), cluster, "");
  const ModelAccount account(config.model);
  PipelineClock clock;
  const PlanPoint point{.cluster = cluster,
                        .stack = stack,
                        .model = config.model,
                        .layout = config.layout,
                        .global_batch = config.batch.global,
                        .dtype = DType::kBFloat16,
                        .products = ParseProductFormat(config.train.dtype),
                        .linears = ParseFloat8Products(config.train.fp8_products)};
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
  const auto cluster = PriceCluster(PacedConfig(), ParseCluster(kCluster, "test"), ParseStack(kStack, "test"));
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
