#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/queries/deadline.h"
#include "planner/queries/emit.h"
#include "planner/queries/phases.h"
#include "planner/queries/plan_json.h"
#include "planner/queries/plan_text.h"
#include "planner/queries/ramp.h"
#include "planner/queries/shapes.h"
#include "planner/queries/training_time.h"
#include "run/stages.h"

namespace trireme {
namespace {

using test::Bloom176b;
using test::Machine;
using test::MessageOf;
using test::SmallGpt;
using testing::HasSubstr;

TEST(TrainingTime, FollowsTheWellKnownExample) {
  // 8 T P / (n X): 300B tokens, 200B parameters, 350 devices at 150 TFLOP/s are 105.82 days, 888,889 device-hours.
  Machine machine("jean-zay-a100", "megatron-ds-2022");
  machine.cluster.node_failure_hours = 1e12;
  const double batch = 2048;
  const double seconds = 8 * 200e9 * batch * 2048 / (350 * 150e12);
  const TrainingTime time =
      EstimateTraining({.cluster = machine.cluster, .devices = 350},
                       {{.samples = 300e9 / 2048, .global_batch = batch, .step_seconds = seconds}});
  EXPECT_NEAR(time.busy_days, 105.82, 0.02);
  EXPECT_NEAR(time.device_hours, 888'889, 200);
  EXPECT_GT(time.megawatt_hours, 0);
}

TEST(TrainingTime, FailuresAndCheckpointsCost) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  TrainingTimeRequest request{.cluster = machine.cluster, .devices = 384, .checkpoint_bytes = 2e12};
  const std::vector<ConstantBatchSpan> stretches = {{.samples = 1.8e8, .global_batch = 2048, .step_seconds = 105}};
  const TrainingTime time = EstimateTraining(request, stretches);
  EXPECT_GT(time.days, time.busy_days);
  EXPECT_NEAR(time.failures, time.days * 24 / (machine.cluster.node_failure_hours / 48), 1e-3 * time.failures);
  request.asynchronous = false;
  EXPECT_GT(EstimateTraining(request, stretches).days, time.days);
  EXPECT_THAT(MessageOf([&] { EstimateTraining(request, {{.samples = 1, .global_batch = 0, .step_seconds = 1}}); }),
              HasSubstr("cannot be priced"));
}

TEST(Ramp, SmallBatchesWasteAPipelineAndTheBestLayoutDoesNot) {
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Bloom176b();
  const SearchRequest request = machine.Request(model, 384, 2048);
  const ParallelLayout layout{.tensor = 4,
                              .pipeline = 12,
                              .data = 8,
                              .zero = 1,
                              .partition = "balanced",
                              .recompute = Recompute::kFull,
                              .micro_batch = 2};
  const BatchConfig batch{.global = 2048, .ramp_start = 512, .ramp_increment = 512, .ramp_samples = 1'000'000};
  const RampPlan plan = PriceRamp(request, batch, layout);
  ASSERT_EQ(plan.rows.size(), 3U);
  EXPECT_EQ(plan.filling_batch, 192);
  EXPECT_LT(plan.rows[0].fixed.hardware_tflops, plan.rows[2].fixed.hardware_tflops);
  EXPECT_LE(plan.best_seconds, plan.fixed_seconds);
  const Candidate full = Price(request, layout);
  const auto stretches = StretchesOf(plan, full, batch, 3e6);
  ASSERT_EQ(stretches.size(), 4U);
  EXPECT_NEAR(stretches.back().samples, 2e6, 1);
  EXPECT_THAT(ToText(plan), HasSubstr("fills"));
  // What a recipe takes: three stages with their batches, each of as many ranks.
  const std::string proposed = StagesOf(plan, request, layout);
  const std::vector<RunStage> stages = ParseStages(proposed);
  ASSERT_EQ(stages.size(), 4U) << proposed;
  EXPECT_EQ(stages[0].until, 333'333);
  EXPECT_EQ(stages[2].until, 1'000'000);
  EXPECT_EQ(stages[3].until, 0);
  RunConfig base;
  base.model = model;
  base.layout = layout;
  base.batch.global = 2048;
  for (std::size_t i = 0; i < 3; ++i) {
    const RunConfig stage = ParseRecipe(ToToml(base), "base", stages[i].settings).config;
    EXPECT_EQ(stage.batch.global, plan.rows[i].batch);
    EXPECT_EQ(stage.layout, plan.rows[i].best.layout);
  }
  EXPECT_THAT(MessageOf([&] {
                PriceRamp(request, {.global = 2048, .ramp_start = 100, .ramp_increment = 512, .ramp_samples = 9},
                          layout);
              }),
              HasSubstr("never meets"));
}

TEST(Ramp, OneMicroBatchAPipelineRunsAtEightTeraflops) {
  // Batch 16 at twelve stages ran for days at 8 TFLOP/s.
  const Machine machine("jean-zay-a100", "megatron-ds-2022");
  const ModelConfig model = Bloom176b();
  const Candidate tiny = Price(machine.Request(model, 384, 16), {.tensor = 4,
                                                                 .pipeline = 12,
                                                                 .data = 8,
                                                                 .zero = 1,
                                                                 .partition = "balanced",
                                                                 .recompute = Recompute::kFull,
                                                                 .micro_batch = 2});
  EXPECT_NEAR(tiny.hardware_tflops, 8, 2.5);
}

TEST(Shapes, SizesAreParsed) {
  EXPECT_EQ(ParseSize("200B"), 200'000'000'000);
  EXPECT_EQ(ParseSize("1.3b"), 1'300'000'000);
  EXPECT_EQ(ParseSize("760M"), 760'000'000);
  EXPECT_THAT(MessageOf([] { ParseSize("many"); }), HasSubstr("200B"));
  EXPECT_THAT(MessageOf([] { ParseSize("3Q"); }), HasSubstr("200B"));
}

TEST(Shapes, ProposalsSuitTheDevice) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  SearchRequest request = machine.Request(model, 16, 128);
  request.recompute = "selective";
  const auto proposals = SearchShapes(request, ParseSize("7B"), 5);
  ASSERT_FALSE(proposals.empty());
  for (const ShapeProposal& one : proposals) {
    EXPECT_NEAR(static_cast<double>(one.parameters) / 7e9, 1, 0.04);
    EXPECT_EQ(one.model.head_size() % 16, 0);
    EXPECT_EQ(one.model.vocabulary % 128, 0);
  }
  EXPECT_GE(proposals[0].best.model_tflops, proposals.back().best.model_tflops);
}

TEST(Shapes, TheLargestModelFitsAndALargerOneDoesNot) {
  const Machine machine("dgx-a100", "trireme");
  const ModelConfig model = SmallGpt();
  SearchRequest request = machine.Request(model, 8, 64);
  request.recompute = "full";
  request.offload = "none";
  const ShapeProposal largest = LargestModel(request);
  EXPECT_GT(largest.parameters, 10e9);
  EXPECT_LT(largest.parameters, 40e9) << "eight devices of 80 GiB hold at most 16 bytes a parameter of this";
  request.offload = "optimizer";
  const ShapeProposal offloaded = LargestModel(request);
  EXPECT_GT(offloaded.parameters, largest.parameters);
  EXPECT_LT(offloaded.parameters, 107e9) << "weight and gradient, 6 bytes, stay on the devices";
}

TEST(Emit, TheRecipeReadsBackAndTheJobAsksForItsNodes) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  const SearchRequest request = machine.Request(model, 16, 64);
  const ParallelLayout layout{.tensor = 2, .pipeline = 2, .data = 4, .zero = 1, .micro_batch = 2};
  const EmitRequest emitted{.search = request, .layout = layout, .tokens = 1e9, .spare_nodes = 1};
  const Recipe recipe = ParseRecipe(EmitRecipe(emitted), "emitted", {});
  EXPECT_EQ(recipe.config.layout, layout);
  EXPECT_EQ(recipe.config.model, model);
  EXPECT_EQ(recipe.config.batch.global, 64);
  const std::string job = EmitSbatch(emitted, "run.toml");
  EXPECT_THAT(job, HasSubstr("#SBATCH --nodes=3"));
  EXPECT_THAT(job, HasSubstr("--ntasks-per-node=8"));
  EXPECT_THAT(job, HasSubstr("trireme train 'run.toml'"));
  EXPECT_THAT(job, HasSubstr("srun --nodes=2 --ntasks=16")) << "the spare node has no rank";
}

TEST(Emit, ARecipeIsOneThatOneWouldSubmit) {
  const Machine machine("jean-zay-a100", "trireme");
  const SearchRequest request = machine.Request(SmallGpt(), 16, 64);
  const ParallelLayout layout{.data = 16, .zero = 1};
  EmitRequest emitted{.search = request, .layout = layout, .tokens = 1e9, .checkpoint_every = 50, .program = "9.9"};
  const std::string text = EmitRecipe(emitted);
  EXPECT_THAT(text, HasSubstr("# By trireme 9.9. Keys that are not here have their defaults (digest "));
  EXPECT_THAT(text, HasSubstr("# Required: "));
  EXPECT_THAT(text, testing::Not(HasSubstr("synthetic")));
  EXPECT_THAT(text, HasSubstr("tokens = 1000000000\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\nsteps = ")));
  EXPECT_THAT(text, testing::Not(HasSubstr("\nnan")));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 45) << text;
  const RunConfig config = ParseRecipe(text, "emitted", {}).config;
  EXPECT_GT(config.optimizer.warmup_samples, 0);
  EXPECT_EQ(config.optimizer.warmup_samples % 64, 0);
  EXPECT_GT(config.validation.every, 0);
  EXPECT_EQ(config.checkpoint.every, 50);
  emitted.full = true;
  const std::string full = EmitRecipe(emitted);
  EXPECT_EQ(ToToml(ParseRecipe(full, "full", {}).config), ToToml(config)) << "the defaults are those of the keys";
  EXPECT_THAT(full, testing::Not(HasSubstr("\nsteps = 100\n")));
  emitted.tokens = 0;
  emitted.program = "";
  EXPECT_THAT(EmitRecipe(emitted), HasSubstr("# By trireme. Every key"));
  EXPECT_EQ(ParseRecipe(EmitRecipe(emitted), "none", {}).config.train.tokens, 20 * ParameterCount(SmallGpt()));
}

// A job script that is made for a machine and a name from outside.
struct Emitted {
  Machine machine{"dgx-h100", "trireme"};
  ModelConfig model = SmallGpt();
  ParallelLayout layout{.tensor = 2, .pipeline = 2, .data = 4, .zero = 1, .micro_batch = 2};
  std::string Sbatch(const std::string& description, const std::string& name, const JobOptions& job = {}) {
    machine.cluster.description = description;
    const SearchRequest request = machine.Request(model, 16, 64);
    return EmitSbatch({.search = request, .layout = layout, .tokens = 1e9, .name = name, .job = job}, name + ".toml");
  }
};

TEST(Emit, AJobSaysWhatItsSiteAsksFor) {
  const std::string job =
      Emitted().Sbatch("x", "run", {.time_limit = "20:00:00", .account = "abc@v100", .partition = "gpu_p5"});
  EXPECT_THAT(job, HasSubstr("#SBATCH --time=20:00:00\n#SBATCH --account=abc@v100\n#SBATCH --partition=gpu_p5\n"));
  for (const char* line : {"--signal=TERM@300", "--requeue", "--array=1-10%1"}) {
    EXPECT_THAT(job, HasSubstr(line));
  }
  EXPECT_THAT(MessageOf([] { Emitted().Sbatch("x", "run", {.time_limit = "soon"}); }),
              HasSubstr("--time-limit 'soon'"));
  EXPECT_THAT(MessageOf([] { Emitted().Sbatch("x", "run", {.account = "a b"}); }), HasSubstr("--account 'a b'"));
  EXPECT_THAT(MessageOf([] { Emitted().Sbatch("x", "run", {.partition = "p;id"}); }), HasSubstr("--partition 'p;id'"));
}

TEST(UsualBatch, GrowsWithTheModelAndSuitsTheDevices) {
  EXPECT_EQ(UsualBatch(124e6, 1024, 8), 512);
  EXPECT_EQ(UsualBatch(7e9, 2048, 64), 1024);
  EXPECT_EQ(UsualBatch(176e9, 2048, 384), 1536) << "3 * 2^9: 384 devices are 3 * 2^7";
  EXPECT_EQ(UsualBatch(176e9, 2048, 384) % 384, 0);
}

TEST(Deadline, MoreNodesMeetItOrNoneDo) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  SearchRequest request = machine.Request(model, 8, 512);
  request.most_micro_batch = 8;
  const SearchResult found = Search(request);
  const double tokens = 1e12;
  const double days = TimeOfTraining(request, found.ranked.front(), tokens).days;
  const DeadlineAnswer answer = NodesForDeadline(request, tokens, days / 2);
  EXPECT_GE(answer.nodes, 2);
  EXPECT_LE(answer.nodes, 16);
  EXPECT_LE(answer.days, days / 2);
  EXPECT_THAT(ToText(answer, request, days / 2), HasSubstr("nodes make it in"));
  Cluster small = machine.cluster;
  small.nodes = 1;
  const SearchRequest alone{.cluster = small,
                            .stack = machine.stack,
                            .state = machine.state,
                            .config = test::PlannedRun(model, {}, 512),
                            .devices = 8,
                            .most_micro_batch = 8};
  EXPECT_EQ(NodesForDeadline(alone, tokens, days / 2).nodes, 0);
  EXPECT_THAT(ToText(NodesForDeadline(alone, tokens, days / 2), alone, days / 2), HasSubstr("out of reach"));
}

TEST(Emit, LayoutsAreParsed) {
  const ParallelLayout layout =
      ParseLayout("tp=4, pp=12 dp=8 mbs=2 zero=1 sp recompute=full partition=7,7,6 chunks=2", {});
  EXPECT_EQ(layout.tensor, 4);
  EXPECT_EQ(layout.pipeline, 12);
  EXPECT_EQ(layout.data, 8);
  EXPECT_EQ(layout.micro_batch, 2);
  EXPECT_EQ(layout.zero, 1);
  EXPECT_TRUE(layout.sequence_parallel);
  EXPECT_EQ(layout.recompute, Recompute::kFull);
  EXPECT_EQ(layout.partition, "7,7,6");
  EXPECT_EQ(ParseLayout("cp=4", {}).context, 4);
  EXPECT_EQ(ParseLayout("cp=4:ring", {}).context_kind, ContextKind::kRing);
  EXPECT_THAT(MessageOf([] { ParseLayout("cp=4:rings", {}); }), HasSubstr("did you mean 'ring'?"));
  const ParallelLayout divided{.context = 2, .context_kind = ContextKind::kUlysses};
  EXPECT_EQ(ParseLayout(divided.ToString(), {}), divided);
  const ParallelLayout sent{.data = 4,
                            .zero = 3,
                            .whole_below = 5'000'000,
                            .reduce = WireFormat::kInt8,
                            .gather = WireFormat::kBFloat16,
                            .offload_activations = true};
  EXPECT_EQ(ParseLayout(sent.ToString(), {}), sent);
  EXPECT_THAT(MessageOf([] { ParseLayout("reduce=int9", {}); }), HasSubstr("did you mean 'int8'?"));
  EXPECT_THAT(MessageOf([] { ParseLayout("tpp=4", {}); }), HasSubstr("did you mean 'tp'?"));
  EXPECT_THAT(MessageOf([] { ParseLayout("tp=four", {}); }), HasSubstr("whole number"));
  EXPECT_THAT(MessageOf([] { ParseLayout("zero=5", {}); }), HasSubstr("0 to 3"));
  EXPECT_THAT(MessageOf([] { ParseLayout("mbs=0", {}); }), HasSubstr("at least 1"));
  EXPECT_THAT(MessageOf([] { ParseLayout("tp=1 pp=2 tp=2", {}); }), HasSubstr("tp is given twice"));
  // What the planner prints, it reads.
  EXPECT_EQ(ParseLayout(layout.ToString(), {}), layout);
}

TEST(Emit, LayersThatDoNotDivideAreSpreadUnlessThePartitionIsGiven) {
  ModelConfig model;
  model.layers = 70;
  EXPECT_EQ(ParseLayoutOf(model, "pp=12").partition, "balanced");
  EXPECT_EQ(ParseLayoutOf(model, "pp=12 partition=cost").partition, "cost");
  EXPECT_EQ(ParseLayoutOf(model, "pp=10").partition, ParallelLayout{}.partition);
}

TEST(Phases, AGrowingAllocationEndsSooner) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = Completed(
      ModelConfig{.family = "gpt2", .layers = 24, .hidden = 2048, .heads = 16, .vocabulary = 50304, .sequence = 2048});
  const SearchRequest request = machine.Request(model, 8, 512);
  const auto plans = PlanPhases(request, ParsePhases("1:1,4"), 100e9);
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_NEAR(plans[0].days, 1, 1e-9);
  EXPECT_NEAR(plans[0].tokens + plans[1].tokens, 100e9, 1);
  EXPECT_GT(plans[1].tokens / plans[1].days, 2 * plans[0].tokens / plans[0].days);
  EXPECT_THAT(ToText(plans, 100e9), HasSubstr("done after"));
  EXPECT_THAT(MessageOf([] { ParsePhases("4:x"); }), HasSubstr("nodes:days"));
}

std::size_t WidestLine(const std::string& text) {
  std::size_t widest = 0;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    widest = std::max(widest, end - begin);
    begin = end + 1;
  }
  return widest;
}

TEST(Ranking, TheAnswerComesFirstAndFitsATerminal) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = Completed(ModelConfig{.family = "llama",
                                                  .layers = 32,
                                                  .hidden = 4096,
                                                  .heads = 32,
                                                  .kv_heads = 8,
                                                  .ffn = 14336,
                                                  .vocabulary = 128256,
                                                  .sequence = 8192});
  const SearchRequest request = machine.Request(model, 32, 512);
  const SearchResult result = Search(request);
  const std::string text = RankingText(result, request, {.tokens = 1e12});
  EXPECT_LE(WidestLine(text), 100U) << text;
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 30) << text;
  const std::string best = ("recommended " + NamedLayout(result.ranked[0].layout)).substr(0, 60);
  EXPECT_LT(text.find(best), text.find("s/step")) << text;
  for (const char* const said :
       {"tokens/s, MFU ", "of 80.0 GiB per device", " GPU-hours", " MWh for 1T tokens", "why       the fastest of ",
        "with another tp, pp or cp +", " out of device memory, "}) {
    EXPECT_THAT(text, HasSubstr(said));
  }
}

TEST(Ranking, MfuIsModelFlopsOverTheDataSheetsPeak) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  const Candidate one = Price(machine.Request(model, 8, 64), {.data = 8});
  EXPECT_NEAR(one.mfu, one.model_tflops / 989.4, 1e-4);
  EXPECT_NEAR(ToJsonValue(one)["mfu"], one.mfu, 1e-12);
}

TEST(Ranking, AModelThatDoesNotFitSaysHowManyDevicesHoldIt) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = Completed(ModelConfig{.family = "llama",
                                                  .layers = 80,
                                                  .hidden = 8192,
                                                  .heads = 64,
                                                  .kv_heads = 8,
                                                  .ffn = 28672,
                                                  .vocabulary = 128256,
                                                  .sequence = 8192});
  SearchRequest request = machine.Request(model, 1, 512);
  const SearchResult result = Search(request);
  ASSERT_TRUE(result.ranked.empty());
  const LeastDevices least = FindLeastDevices(request, result);
  ASSERT_GT(least.devices, 1);
  const std::string text = NothingFitsText(result, request, least);
  EXPECT_THAT(text, HasSubstr("no layout fits: "));
  EXPECT_THAT(text, HasSubstr(fmt::format("try --gpus {}", least.devices)));
  request.devices = least.devices;
  EXPECT_FALSE(Search(request).ranked.empty());
  request.devices = least.too_few;
  EXPECT_TRUE(Search(request).ranked.empty());
}

TEST(Ranking, CountsAreGroupedAndLongLinesBroken) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(12096), "12,096");
  EXPECT_EQ(Grouped(-1234567), "-1,234,567");
  const std::string words = std::string(60, 'a') + " " + std::string(60, 'b');
  EXPECT_EQ(Wrapped("  x ", words), "  x " + std::string(60, 'a') + "\n    " + std::string(60, 'b') + "\n");
  EXPECT_EQ(Wrapped("x", ""), "x\n");
}

TEST(Ranking, TextAndJsonHoldDaysAndRefusals) {
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  const SearchRequest request = machine.Request(model, 16, 64);
  const SearchResult result = Search(request);
  const std::string text = RankingText(result, request, {.tokens = 1e12, .deadline_days = 0.001});
  EXPECT_THAT(text, HasSubstr("days"));
  EXPECT_THAT(text, HasSubstr("late"));
  EXPECT_THAT(text, HasSubstr("refused"));
  const nlohmann::json json = RankingJson(result, request, {.tokens = 1e12});
  EXPECT_GT(json["ranked"][0]["device_hours"].get<double>(), 0);
  EXPECT_EQ(json["ranked"].size(), result.ranked.size());
}

}  // namespace
}  // namespace trireme
