// The planner where nothing was calibrated: other programs' columns, families and layouts, what they refuse, how sure a
// prediction is, and what it learns from few runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/interval.h"
#include "planner/pricing/module_time.h"
#include "planner/pricing/step_estimate.h"
#include "planner/search/layout_space.h"
#include "planner/validation/sick_runs.h"
#include "planner/validation/validate.h"

namespace trireme {
namespace {

using test::Machine;
using test::MessageOf;
using test::ShippedCluster;
using test::ShippedFiles;
using test::ShippedStack;
using test::SmallGpt;
using test::Source;
using testing::HasSubstr;

constexpr const char* kColumns =
    "id,source,table,cluster,accelerator,gpus_per_node,gpus,system,family,layers,hidden,heads,kv_heads,ffn,vocab,tied,"
    "seq,tp,cp,ep,pp,chunks,dp,zero_stage,offload,micro_batch,gradient_accumulation,global_batch,dtype,"
    "activation_recompute,sequence_parallel,memory_gb,seconds_per_iteration,outcome,trust,note\n";

RunPoint Understood1(const std::string& row, const PlannerFiles& files, std::vector<MeasuredRun>& runs) {
  runs = ParseRuns(std::string(kColumns) + row, "x");
  const Understood understood = Understand(runs[0], files);
  EXPECT_TRUE(understood.point) << understood.reason;
  return understood.point ? *understood.point : RunPoint{};
}

TEST(OtherPrograms, EveryColumnReachesThePoint) {
  std::vector<MeasuredRun> runs;
  const PlannerFiles files = ShippedFiles();
  const RunPoint point = Understood1(
      "a,s,t,dgx-h100,h100-80g,8,64,nemo,llama,80,8192,64,8,28672,128256,,8192,4,2,1,4,5,2,,none,1,64,128,fp8,"
      "selective,,,11.0,ok,clean,\n",
      files, runs);
  EXPECT_EQ(point.config.model.family, "llama");
  EXPECT_EQ(point.config.model.kv_heads, 8);
  EXPECT_EQ(point.config.model.ffn, 28672);
  EXPECT_FALSE(point.config.model.tie_embeddings);
  EXPECT_EQ(point.config.layout.context, 2);
  EXPECT_EQ(point.config.layout.chunks, 5);
  EXPECT_EQ(point.config.layout.schedule, "interleaved");
  EXPECT_EQ(point.config.layout.zero, 1) << "the program's habit";
  EXPECT_TRUE(point.config.layout.sequence_parallel) << "the program's habit";
  EXPECT_EQ(point.config.layout.recompute, Recompute::kSelective);
  EXPECT_EQ(ProductFormatOf(point.config), ProductFormat::kFloat8);
  EXPECT_EQ(DTypeOf(point.config), DType::kBFloat16);
}

TEST(OtherPrograms, FamiliesOfOtherProgramsArePriced) {
  std::vector<MeasuredRun> runs;
  const PlannerFiles files = ShippedFiles();
  const RunPoint nemotron = Understood1(
      "a,s,t,dgx-h100,h100-80g,8,16,nemo,nemotron,32,6144,48,8,24576,256000,,4096,4,1,1,1,,4,,none,4,4,64,bf16,,,,2.8,"
      "ok,clean,\n",
      files, runs);
  EXPECT_EQ(nemotron.config.model.feed_forward, ActivationKind::kSquaredRelu) << "two matrices";
  EXPECT_EQ(nemotron.config.model.kv_heads, 8);
  const RunPoint mpt = Understood1(
      "a,s,t,mosaic,a100-80g,8,8,llm-foundry,mpt,32,4096,32,32,16384,50368,1,2048,1,1,1,1,,8,3,none,6,2,96,bf16,0,,,5,"
      "ok,clean,\n",
      files, runs);
  EXPECT_FALSE(mpt.config.model.linear_bias);
  EXPECT_TRUE(mpt.config.model.tie_embeddings);
  const RunPoint spread = Understood1(
      "a,s,t,hf-h100-efa,h100-80g,8,16,nanotron,llama,80,8192,64,8,28672,131072,,4096,16,1,1,1,,1,0,none,1,4,4,bf16,0,,"
      ",5,ok,clean,\n",
      files, runs);
  EXPECT_EQ(spread.config.model.kv_heads, 16) << "ranks beyond the key heads hold copies";
}

TEST(OtherPrograms, AProgramOrMachineWithoutAFileIsPricedByItsNearest) {
  const std::vector<MeasuredRun> runs = ParseRuns(
      std::string(kColumns) +
          "a,s,t,elsewhere,h200-141g,8,8,some-new-program,llama,32,4096,32,8,14336,128256,,8192,2,1,1,1,,4,,none,1,8,"
          "32,bf16,0,,,5,ok,clean,\n"
          "b,s,t,dgx-h200,h200-141g,8,8,megatron-core,llama,32,4096,32,8,14336,128256,,8192,2,1,1,1,,4,,none,1,8,32,"
          "bf16,0,,,5,ok,clean,\n",
      "x");
  const Validation validation = Validate(runs, ShippedFiles(), {});
  ASSERT_EQ(validation.predictions.size(), 2U);
  const Prediction& foreign = validation.predictions[0];
  const Prediction& known = validation.predictions[1];
  EXPECT_TRUE(foreign.assumed_cluster);
  EXPECT_TRUE(foreign.assumed_stack);
  EXPECT_NEAR(foreign.seconds / known.seconds, 1, 1e-9);
  EXPECT_GT(foreign.high / foreign.low, known.high / known.low) << "less is known";
}

TEST(OtherPrograms, AnOpenFailureIsJudgedByExactBytes) {
  const auto failure = [](double exact) {
    MeasuredRun run;
    run.outcome = "failed";
    return FailureOf({.run = &run, .exact = exact, .memory = 100});
  };
  EXPECT_EQ(failure(96), Failure::kMemory);
  EXPECT_EQ(failure(80), Failure::kUnknown);
  EXPECT_EQ(failure(59), Failure::kOther);
  MeasuredRun run;
  run.outcome = "ok";
  EXPECT_EQ(FailureOf({.run = &run, .exact = 200, .memory = 100}), Failure::kNone);
}

TEST(OtherPrograms, ReleasesOfOnePublisherAreOneSource) {
  const auto source = [](const std::string& name) {
    MeasuredRun run;
    run.source = name;
    return SourceOf(run);
  };
  EXPECT_EQ(source("dgxc-v24.11.1"), source("dgxc-v25.04.01"));
  EXPECT_EQ(source("dgxc-v25.04.01-maxtext"), "dgxc-maxtext");
  EXPECT_EQ(source("jean-zay-v100"), "jean-zay-v100") << "a device, not a release";
  EXPECT_EQ(source("my-vendor"), "my-vendor");
}

TEST(Refusals, ALayoutThatTheProgramCannotRunSaysWhy) {
  const auto refusal = [](const std::string& stack, const ParallelLayout& layout) {
    const Machine machine("dgx-a100", stack);
    return StackRefusal(machine.Request(SmallGpt(), 1, 1), layout);
  };
  EXPECT_THAT(refusal("hf-fsdp-2023", {.context = 2}), HasSubstr("cp=2"));
  EXPECT_THAT(refusal("hf-fsdp-2023", {.tensor = 2}), HasSubstr("no tensor parallelism"));
  EXPECT_THAT(refusal("hf-fsdp-2023", {.pipeline = 2}), HasSubstr("no pipelines"));
  EXPECT_THAT(refusal("hf-deepspeed-2023", {.data = 8, .zero = 1, .offload = Offload::kFull}),
              HasSubstr("under zero=3 only"));
  EXPECT_EQ(refusal("hf-deepspeed-2023", {.data = 8, .zero = 3, .offload = Offload::kFull}), "");
  EXPECT_EQ(refusal("megatron-core-2024", {.tensor = 2, .context = 2}), "");
  EXPECT_EQ(refusal("trireme", {.tensor = 8, .pipeline = 4, .data = 2, .zero = 2}), "");
  EXPECT_EQ(refusal("trireme", {.context = 2}), "");
}

TEST(Context, IsSearchedWhereItIsAskedForAndTheProgramHasIt) {
  const Machine laptop("laptop-cpu", "trireme");
  ModelConfig model = SmallGpt(2);
  model.sequence = 4096;
  SearchRequest request = laptop.Request(model, 4, 1);
  const auto degrees = [](const SearchResult& result) {
    std::set<int> found;
    for (const Candidate& candidate : result.ranked) {
      found.insert(candidate.layout.context);
    }
    return found;
  };
  request.keep = 1000;
  request.most_tensor = 1;
  EXPECT_THAT(degrees(Search(request)), testing::ElementsAre(1));
  request.most_context = 4;
  const SearchResult found = Search(request);
  EXPECT_THAT(degrees(found), testing::ElementsAre(1, 2, 4));
  // One sequence a step on four ranks: without tensor ranks only the context axis gives all of them work.
  EXPECT_GT(found.ranked.front().layout.context, 1);
  request.context = 2;
  request.context_kind = ContextKind::kRing;
  for (const Candidate& candidate : Search(request).ranked) {
    EXPECT_EQ(candidate.layout.context, 2);
    EXPECT_EQ(candidate.layout.context_kind, ContextKind::kRing);
  }
  const Machine without("dgx-a100", "hf-fsdp-2023");
  SearchRequest refused = without.Request(model, 8, 8);
  refused.most_context = 4;
  EXPECT_THAT(degrees(Search(refused)), testing::ElementsAre(1));
}

// The exchange is a term of its own, and longer over slower links.
TEST(Context, CollectivesArePriced) {
  const Machine laptop("laptop-cpu", "trireme");
  Machine slow("laptop-cpu", "trireme");
  slow.cluster.device_link.bandwidth /= 10;
  ModelConfig model = SmallGpt(2);
  model.sequence = 4096;
  PipelineClock clock;
  for (const ContextKind kind : {ContextKind::kAllGather, ContextKind::kRing, ContextKind::kUlysses}) {
    const ParallelLayout layout{.context = 4, .context_kind = kind};
    const auto seconds = [&](const Machine& machine) {
      const PlanPoint point = machine.Point(model, layout, 1);
      return EstimateStep(point, ModelAccount(model), clock).terms.context;
    };
    EXPECT_GT(seconds(laptop), 0) << Name(kind);
    EXPECT_GT(seconds(slow), 2 * seconds(laptop)) << Name(kind);
  }
}

TEST(Refusals, ASearchOffersNoneOfThem) {
  const Machine fsdp("dgx-a100", "hf-fsdp-2023");
  const ModelConfig model = SmallGpt();
  for (const Candidate& candidate : Search(fsdp.Request(model, 16, 64)).ranked) {
    EXPECT_EQ(candidate.layout.tensor, 1);
    EXPECT_EQ(candidate.layout.pipeline, 1);
  }
  const Machine deepspeed("dgx-a100", "hf-deepspeed-2023");
  for (const Candidate& candidate : Search(deepspeed.Request(model, 16, 64)).ranked) {
    EXPECT_TRUE(candidate.layout.offload != Offload::kFull || candidate.layout.zero == 3);
  }
  const SearchRequest request = fsdp.Request(model, 16, 64);
  EXPECT_THAT(MessageOf([&] { Price(request, {.context = 2, .data = 8, .micro_batch = 1}); }), HasSubstr("cp=2"));
}

// A file with zero_bubble's own actions is zero_bubble under another name.
TEST(Refusals, AScheduleFileIsPricedByItsActions) {
  const std::string path = (std::filesystem::temp_directory_path() / "abroad_test.schedule").string();
  {
    std::ofstream file(path, std::ios::binary);
    file << ToText(MakeSchedule("zero_bubble", 4, 1, 8));
  }
  EXPECT_TRUE(SplitsBackward(path));
  const Machine machine("dgx-h100", "trireme");
  const ModelConfig model = SmallGpt();
  const SearchRequest request = machine.Request(model, 4, 8);
  ParallelLayout layout{.pipeline = 4, .schedule = "zero_bubble", .micro_batch = 1};
  const Candidate named = Price(request, layout);
  layout.schedule = path;
  const Candidate read = Price(request, layout);
  EXPECT_EQ(read.peak, named.peak);
  EXPECT_NEAR(read.seconds / named.seconds, 1, 1e-9);
  std::filesystem::remove(path);
}

TEST(Refusals, ATensorGroupThatDoesNotDivideANodeCrossesIt) {
  const Cluster cluster = ShippedCluster("dgx-a100");
  EXPECT_TRUE(PlaceTensor(cluster, {.tensor = 6}).crosses_nodes());
  EXPECT_FALSE(PlaceTensor(cluster, {.tensor = 4}).crosses_nodes());
  EXPECT_TRUE(PlaceTensor(cluster, {.tensor = 16}).crosses_nodes());
  const LinkShares shares;
  const auto seconds = [&](int tensor) {
    return CollectiveSeconds(CollectiveKind::kAllReduce, 64e6, 1, PlaceTensor(cluster, {.tensor = tensor}), cluster,
                             shares);
  };
  EXPECT_GT(seconds(6), 2 * seconds(8));
}

TEST(Collectives, RingsGrowWithTheGroupAndTreesWithItsLogarithm) {
  const Cluster cluster = ShippedCluster("dgx-h100");
  const auto small = [&](CollectiveKind kind, int nodes) {
    return CollectiveSeconds(kind, 1024, 1, {.size = 8 * nodes, .per_node = 8}, cluster, {});
  };
  const double ring = small(CollectiveKind::kAllGather, 64) / small(CollectiveKind::kAllGather, 16);
  EXPECT_GT(ring, 3) << "four times the hops";
  const double tree = small(CollectiveKind::kAllReduce, 64) / small(CollectiveKind::kAllReduce, 16);
  EXPECT_LT(tree, 1.6);
  // A large message does not care.
  const auto large = [&](int nodes) {
    return CollectiveSeconds(CollectiveKind::kAllReduce, 8e9, 1, {.size = 8 * nodes, .per_node = 8}, cluster, {});
  };
  EXPECT_LT(large(64) / large(16), 1.05);
}

TEST(Host, APassTakesTheLongerOfIssuingAndRunning) {
  Machine machine("dgx-a100", "megatron-lm-2021");
  const ModelConfig small = SmallGpt();
  const ParallelLayout layout{.micro_batch = 1};
  const auto block = [&](const ModelConfig& model) {
    const PlanPoint point = machine.Point(model, layout, 1);
    return TimeOfBlock(point, point.prices.Sizes(point));
  };
  const double issue = machine.state.efficiencies.layer_seconds;
  EXPECT_NEAR(block(small).total(), issue, 1e-9) << "kernels of a small model wait for the host";
  const ModelConfig large = Completed(
      ModelConfig{.family = "gpt2", .layers = 2, .hidden = 8192, .heads = 64, .vocabulary = 50304, .sequence = 2048});
  EXPECT_EQ(block(large).forward.overhead, 0) << "the host is ahead of a large one";
  machine.state.time.blocking = true;
  EXPECT_NEAR(block(large).forward.overhead + block(large).backward_input.overhead, issue, 1e-9);
}

TEST(Products, EightBitsAreFasterByLessThanTheirPeak) {
  const Machine machine("dgx-h100", "megatron-core-2024");
  const ModelConfig model = Completed(ModelConfig{.family = "llama",
                                                  .layers = 4,
                                                  .hidden = 8192,
                                                  .heads = 64,
                                                  .kv_heads = 8,
                                                  .vocabulary = 32000,
                                                  .sequence = 4096});
  PlanPoint half = machine.Point(model, {.tensor = 4, .micro_batch = 1}, 1);
  const ModuleTime native = TimeOfBlock(half, half.prices.Sizes(half));
  half.config.train.dtype = "fp8";
  const ModuleTime cast = TimeOfBlock(half, half.prices.Sizes(half));
  EXPECT_LT(cast.forward.matmul, 0.6 * native.forward.matmul);
  EXPECT_GT(cast.forward.memory, native.forward.memory) << "operands are cast";
  EXPECT_EQ(cast.forward.attention, native.forward.attention);
}

TEST(Context, RanksOfASequenceShareItsTokens) {
  const Machine machine("dgx-h100", "megatron-core-2024");
  const ModelConfig model = Completed(ModelConfig{.family = "llama",
                                                  .layers = 8,
                                                  .hidden = 4096,
                                                  .heads = 32,
                                                  .kv_heads = 8,
                                                  .vocabulary = 32000,
                                                  .sequence = 65536});
  PipelineClock clock;
  const auto estimate = [&](int context) {
    const PlanPoint point =
        machine.Point(model, {.tensor = 2, .context = context, .data = 1, .zero = 1, .micro_batch = 1}, 1);
    return EstimateStep(point, ModelAccount(model), clock);
  };
  EXPECT_NEAR(estimate(1).terms.attention / estimate(4).terms.attention, 4, 0.2);
  EXPECT_GT(estimate(1).memory.peak, 2 * estimate(4).memory.peak);
}

TEST(Interval, RunsThatWereSeenNarrowIt) {
  std::vector<double> covariance = PriorCovariance();
  std::vector<double> slopes(EfficiencyFields().size(), 0.0);
  slopes[0] = -0.8;
  const double before = Variance(slopes, covariance);
  Learn(slopes, kModelNoise, covariance);
  const double after = Variance(slopes, covariance);
  EXPECT_LT(after, before);
  EXPECT_NEAR(after, before * kModelNoise * kModelNoise / (before + kModelNoise * kModelNoise), 1e-12);
  EXPECT_LT(SpreadOf(after), SpreadOf(before));
}

TEST(Interval, FittingIsAProbability) {
  EXPECT_NEAR(FitProbability(80, 80, 0.1), 0.5, 1e-12);
  EXPECT_NEAR(FitProbability(80, 80 * 1.1, 0.1), 0.9, 1e-3) << "the upper end of an interval that holds 80 %";
  EXPECT_LT(FitProbability(100, 80, 0.1), 0.01);
}

// Six runs of one sweep; one of them stands still for a reason of its own.
TEST(SickRuns, OneThatIsAloneInItsNeighbourhoodIsSetAside) {
  std::string table = kColumns;
  for (const int tensor : {1, 2, 4}) {
    for (const int micro_batch : {1, 2}) {
      table += fmt::format(
          "t{0}m{1},s,t,hf-h100-efa,h100-80g,8,8,nanotron,llama,16,2048,32,32,8192,131072,1,4096,{0},1,1,1,,{2},1,none,"
          "{1},{3},256,bf16,0,,,1,ok,clean,\n",
          tensor, micro_batch, 8 / tensor, 256 / micro_batch / (8 / tensor));
    }
  }
  const std::vector<MeasuredRun> runs = ParseRuns(table, "x");
  const PlannerFiles files = ShippedFiles();
  std::vector<PricedRun> priced;
  std::vector<const PricedRun*> group;
  for (const MeasuredRun& run : runs) {
    const Understood understood = Understand(run, files);
    ASSERT_TRUE(understood.point) << understood.reason;
    priced.push_back(
        {.point = *understood.point, .account = ModelAccount(understood.point->config.model), .seconds = 1});
  }
  for (const PricedRun& run : priced) {
    group.push_back(&run);
  }
  std::vector<double> predicted(6, 1.0);
  predicted[2] = 0.2;  // measured five times as slow as predicted, alone
  std::vector<bool> sick = FindSick(group, predicted);
  EXPECT_EQ(sick, (std::vector<bool>{false, false, true, false, false, false}));
  predicted.assign(6, 0.2);  // all are: the model is wrong, not the runs
  sick = FindSick(group, predicted);
  EXPECT_EQ(sick, std::vector<bool>(6, false));
}

TEST(Fit, NoRunsAreThePriorAndFiveAreSharper) {
  const std::vector<MeasuredRun> runs = LoadRuns(Source("tests/planner/public_runs.csv"));
  const PlannerFiles files = ShippedFiles();
  const Validation prior = Validate(runs, files, {});
  const Validation five = Validate(runs, files, {.fit = 5});
  double prior_width = 0;
  double five_width = 0;
  int fitted = 0;
  for (std::size_t i = 0; i < prior.predictions.size(); ++i) {
    prior_width += std::log(prior.predictions[i].high / prior.predictions[i].low);
    five_width += std::log(five.predictions[i].high / five.predictions[i].low);
    fitted += five.predictions[i].fitted_on ? 1 : 0;
  }
  EXPECT_LT(five_width, prior_width);
  EXPECT_GT(fitted, 5) << "five of each source and stack that has as many";
  EXPECT_NE(ToSvg(prior).find("<circle"), std::string::npos);
}

}  // namespace
}  // namespace trireme
