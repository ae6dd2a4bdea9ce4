#include "planner/queries/node_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/fixtures.h"
#include "planner/queries/emit_chain.h"
#include "planner/queries/plan_answer.h"
#include "run/stages.h"

namespace trireme {
namespace {

using test::Machine;
using test::SmallGpt;
using testing::HasSubstr;

// Note 002: a 1.3B on V100 nodes of four, batches of 32, 64 and 128 with micro batches of one sample.
TEST(NodeSchedule, SmallBatchesHaveFewerNodes) {
  const Machine machine("jean-zay-v100-32g", "megatron-ds-2021");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 24, .hidden = 2048, .heads = 16, .vocabulary = 50257, .sequence = 2048});
  SearchRequest request = machine.Request(model, 32 * 4, 128);
  request.tensor = request.pipeline = 1;
  const NodeSchedule schedule =
      PlanNodes(request, {.global = 128, .ramp_start = 32, .ramp_increment = 32, .ramp_samples = 96'000});
  ASSERT_EQ(schedule.rows.size(), 4U);
  EXPECT_EQ(schedule.rows[0].batch, 32);
  EXPECT_EQ(schedule.rows[0].devices, 8 * 4);
  EXPECT_EQ(schedule.rows[0].best.layout.micro_batch, 1);
  EXPECT_EQ(schedule.rows[1].devices, 16 * 4);
  EXPECT_EQ(schedule.rows[3].devices, 32 * 4);
  EXPECT_EQ(schedule.rows[3].samples, 0);
  EXPECT_NEAR(schedule.rows[0].samples, 32'000, 1);
  const TrainingNeeds needs = NeedsOf(schedule, 96'000 + 128 * 1000);
  EXPECT_NEAR(needs.days, (schedule.seconds + 1000 * schedule.rows[3].best.seconds) / 86'400, 1e-9);
  EXPECT_GT(needs.device_hours, schedule.device_hours);
  EXPECT_EQ(NeedsOf(schedule, 96'000).days, schedule.seconds / 86'400);
  const std::string text = ToText(schedule);
  EXPECT_THAT(text, HasSubstr(" NNODES          BS  MBS"));
  EXPECT_THAT(text, HasSubstr("      8          32    1"));
  EXPECT_THAT(text, HasSubstr("to the end"));
}

// The stages that are written are stages that the trainer takes, each on its own number of ranks.
TEST(NodeSchedule, IsEmittedAsStagesAndAChainOfJobs) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  PlanOptions options{.nodes = 4, .tokens = 1e9, .ramp = "8,8,1k", .emit = "recipe,sbatch", .out = "jobs/mine"};
  options.global_batch = 32;
  options.fix = "tp=1 pp=1 mbs=1";
  options.job = {
      .constraint = "h100&nvme", .cpus_per_task = 12, .hint = "nomultithread", .reservation = "r1", .qos = "q"};
  options.node_schedule = true;
  const PlanAnswer answer =
      AnswerPlan({.cluster = machine.cluster, .stack = machine.stack, .model = model, .compared = {}}, options);
  ASSERT_EQ(answer.files.size(), 2U);
  const RunConfig config = ParseRecipe(answer.files[0].text, "mine.toml", {"data.source=synthetic"}).config;
  const std::vector<RunStage> stages = ParseStages(config.train.stages);
  ASSERT_EQ(stages.size(), 4U);
  EXPECT_EQ(config.layout.ranks(), 32);
  EXPECT_EQ(config.train.tokens, 0) << "stages end at samples";
  std::vector<RunConfig> configs;
  for (const RunStage& stage : stages) {
    configs.push_back(ParseRecipe(answer.files[0].text, "mine.toml", stage.settings).config);
    EXPECT_NO_THROW(Validate(configs.back(), 0));
  }
  EXPECT_EQ(configs[0].layout.ranks(), 8);
  EXPECT_EQ(configs[0].batch.global, 8);
  EXPECT_NO_THROW(RequireStages(stages, configs));
  const std::string& job = answer.files[1].text;
  for (const char* const line :
       {"#SBATCH --nodes=1\n", "#SBATCH --constraint=h100&nvme\n", "#SBATCH --cpus-per-task=12\n",
        "#SBATCH --hint=nomultithread\n", "#SBATCH --reservation=r1\n", "#SBATCH --qos=q\n", "--next-ranks",
        "afterany:$SLURM_JOB_ID", "recipe='jobs/mine.toml'"}) {
    EXPECT_THAT(job, HasSubstr(line));
  }
}

TEST(NodeSchedule, AFineRampIsPlannedInGroupsThatItsLayoutsDivide) {
  const Machine machine("dgx-h100", "trireme");
  SearchRequest request = machine.Request(SmallGpt(), 8, 512);
  request.tensor = request.pipeline = 1;
  request.recompute = "none";
  const NodeSchedule schedule =
      PlanNodes(request, {.global = 512, .ramp_start = 8, .ramp_increment = 8, .ramp_samples = 10'000});
  ASSERT_EQ(schedule.rows.size(), 64U);
  for (const NodeScheduleRow& row : schedule.rows) {
    EXPECT_GT(row.best.seconds, 0) << row.batch;
    EXPECT_EQ(row.batch % (row.best.layout.data * row.best.layout.micro_batch), 0) << row.batch;
  }
}

}  // namespace
}  // namespace trireme
