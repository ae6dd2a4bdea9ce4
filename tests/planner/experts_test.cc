// Models with experts under programs that divide them over an axis of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cost/formulas.h"
#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/pricing/expert_time.h"
#include "planner/pricing/step_estimate.h"
#include "planner/queries/compare.h"
#include "planner/search/search.h"
#include "planner/validation/run_model.h"
#include "planner/validation/validate.h"

namespace trireme {
namespace {

using test::Machine;
using test::MessageOf;
using test::ShippedFiles;
using test::Source;
using testing::HasSubstr;

constexpr const char* kStack = "megatron-core-2024";

ModelConfig Preset(const std::string& name) {
  return ParseRecipe("[model]\npreset = \"" + name + "\"\n", "test", {}, {.models_folder = Source("models")})
      .config.model;
}

// 12 layers of 64 experts, 8 for each token.
ModelConfig Fine() {
  return Completed(ModelConfig{.family = "llama",
                               .layers = 12,
                               .hidden = 2048,
                               .heads = 16,
                               .ffn = 8192,
                               .vocabulary = 50'304,
                               .sequence = 4096,
                               .experts = {.count = 64, .chosen = 8, .ffn = 1024}});
}

ParallelLayout Layout(int data, int expert) {
  return {.data = data, .zero = 1, .micro_batch = 1, .expert = expert, .expert_tensor = 1};
}

StepEstimate Estimate(const Machine& machine, const ModelConfig& model, const ParallelLayout& layout,
                      std::int64_t batch) {
  PipelineClock clock;
  return EstimateStep(machine.Point(model, layout, batch), ModelAccount(model), clock);
}

TEST(ExpertPrices, ReleasedShapesHaveTheirParameters) {
  // Totals and those of a token, as the releases state them.
  const ModelConfig deepseek = Preset("deepseek-v3");
  EXPECT_NEAR(static_cast<double>(ParameterCount(deepseek)), 671e9, 1e9);
  EXPECT_NEAR(static_cast<double>(ActiveParameterCount(deepseek)), 37.5e9, 0.5e9);
  const ModelConfig oss = Preset("gpt-oss-120b");
  EXPECT_NEAR(static_cast<double>(ParameterCount(oss)), 116.8e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(ActiveParameterCount(oss)), 5.7e9, 0.1e9);
}

// Six FLOPs a parameter that a token passes through, but for the input table, and attention's scores.
TEST(ExpertPrices, ModelFlopsCountWhatATokenPassesThrough) {
  ModelConfig model = Preset("deepseek-v3");
  model.sequence = 4096;
  const double scores = 3 * 2.0 * 4096 * 128 * (192 + 128) / 2 * 61;
  const double table = static_cast<double>(model.vocabulary * model.hidden);
  const double expected = 6 * (static_cast<double>(ActiveParameterCount(model)) - table) + scores;
  EXPECT_NEAR(ModelFlops(model, 1) / 4096, expected, 1e-3 * expected);
}

TEST(ExpertPrices, AnExpertAxisDividesExpertsAndNothingElse) {
  const Machine machine("dgx-h100", kStack);
  const ModelConfig model = Fine();
  const ModelAccount account(model);
  const std::vector<std::int64_t> blocks = {12};
  const PlanPoint one = machine.Point(model, Layout(8, 1), 64);
  const PlanPoint eight = machine.Point(model, Layout(8, 8), 64);
  const double experts = 12 * account.expert_parameters();
  EXPECT_EQ(experts, 12.0 * 64 * 3 * 2048 * 1024);
  EXPECT_EQ(one.prices.Parameters(one, account, blocks, 0, {}) - eight.prices.Parameters(eight, account, blocks, 0, {}),
            experts * 7 / 8);
  EXPECT_EQ(eight.prices.ExpertParameters(eight, account, blocks, 0), experts / 8);
  const StageMemory whole = Estimate(machine, model, Layout(8, 1), 64).memory.stages[0];
  const StageMemory cut = Estimate(machine, model, Layout(8, 8), 64).memory.stages[0];
  EXPECT_LT(cut.weights, 0.3 * whole.weights);
  EXPECT_DOUBLE_EQ(cut.optimizer, whole.optimizer) << "all ranks together hold each expert's state once either way";
}

TEST(ExpertPrices, AnExchangeCostsMoreAcrossNodes) {
  const Machine machine("dgx-h100", kStack);
  const ModelConfig model = Fine();
  EXPECT_EQ(Estimate(machine, model, Layout(32, 1), 128).terms.experts, 0);
  const double within = Estimate(machine, model, Layout(32, 8), 128).terms.experts;
  const double across = Estimate(machine, model, Layout(32, 16), 128).terms.experts;
  EXPECT_GT(across, 3 * within);
  // Each rank sends 8 rows a token, of which seven eighths leave it, forward and backward, there and back.
  const double bytes = 4 * 12 * 4096.0 * 8 * 2048 * 2 * 7 / 8;
  EXPECT_NEAR(within, 4 * bytes / (450e9 * 0.75), 0.1 * within);
}

TEST(ExpertPrices, GroupedProductsOfFewRowsAreSlow) {
  const Machine machine("dgx-h100", kStack);
  const MatmulPrice price = ProductPrice(machine.Point(Fine(), Layout(8, 8), 64), ProductFormat::kNative);
  const auto rate = [&](std::int64_t rows, std::int64_t together) {
    constexpr std::int64_t kExperts = 16;
    return static_cast<double>(kExperts * rows) / price.GroupedSeconds({rows, 2048, 2048}, kExperts, together);
  };
  EXPECT_LT(rate(64, 4), 0.5 * rate(4096, 4));
  EXPECT_LT(rate(256, 1), 0.6 * rate(256, 4)) << "one expert at a time leaves units idle";
  const double dense = price.Seconds({16 * 4096, 2048, 2048});
  EXPECT_NEAR(price.GroupedSeconds({4096, 2048, 2048}, 16, 0), dense, 0.1 * dense);
}

TEST(ExpertPrices, TheBusiestRankSetsThePace) {
  EXPECT_EQ(BusiestShare(0.6, 1, 64, 1000), 1);
  // The design's simulation: 64 experts on 8 ranks, log-normal popularity.
  EXPECT_NEAR(BusiestShare(0.6, 8, 64, 400 * 8), 1.27, 0.05);
  EXPECT_NEAR(BusiestShare(1.0, 8, 64, 400 * 8), 1.54, 0.06);
  Machine machine("dgx-h100", kStack);
  const double balanced = Estimate(machine, Fine(), Layout(8, 8), 64).seconds;
  machine.state.time.expert_variation = 0.6;
  EXPECT_GT(Estimate(machine, Fine(), Layout(8, 8), 64).seconds, 1.05 * balanced);
}

TEST(ExpertPrices, DenseLayersBetweenArePricedWhereTheyLie) {
  const Machine machine("dgx-h100", kStack);
  ModelConfig model = Fine();
  model.experts.dense_layers = 6;
  ParallelLayout layout = Layout(8, 8);
  layout.pipeline = 2;
  const PlanPoint point = machine.Point(model, layout, 64);
  const ModelAccount account(model);
  const double dense = point.prices.Parameters(point, account, {6, 6}, 0, {});
  EXPECT_EQ(point.prices.ExpertParameters(point, account, {6, 6}, 0), 0);
  EXPECT_EQ(dense, 6 * account.dense_parameters() + 50'304.0 * 2048);
  const StepEstimate estimate = Estimate(machine, model, layout, 64);
  EXPECT_GT(estimate.stage_seconds[1], 1.2 * estimate.stage_seconds[0]);
}

TEST(ExpertPrices, ASearchFindsAnExpertDegree) {
  const Machine machine("dgx-h100", kStack);
  SearchRequest request = machine.Request(Fine(), 16, 64);
  request.context = 1;
  request.keep = 1000;
  std::set<int> degrees;
  for (const Candidate& candidate : Search(request).ranked) {
    degrees.insert(candidate.layout.expert);
  }
  EXPECT_THAT(degrees, testing::IsSupersetOf({1, 4, 8}));
  request.expert = 4;
  EXPECT_EQ(Search(request).ranked.front().layout.expert, 4);
  const auto state = [&](const SoftwareStack& stack) { return Resolve(stack, request.cluster, ""); };
  const std::vector<Compared> compared = Compare(request, {request.stack}, state, {});
  ASSERT_TRUE(compared[0].best) << compared[0].reason;
  EXPECT_EQ(compared[0].best->layout.expert, 4) << "a held axis is held under every program";
  const Machine without("dgx-h100", "llm-foundry-2023");
  EXPECT_THAT(MessageOf([&] { Price(without.Request(Fine(), 8, 64), {.data = 8, .expert = 8}); }),
              HasSubstr("no expert axis"));
  EXPECT_THAT(MessageOf([&] { Price(machine.Request(Fine(), 8, 64), {.data = 8, .expert = 3}); }), HasSubstr("ep=3"));
}

// What tables of runs may have of experts. The rows are made up.
constexpr const char* kTable =
    "id,source,table,cluster,accelerator,gpus_per_node,gpus,system,family,layers,hidden,heads,kv_heads,ffn,vocab,seq,"
    "tp,"
    "cp,ep,pp,chunks,dp,experts,experts_per_token,expert_ffn,shared_ffn,micro_batch,global_batch,dtype,"
    "seconds_per_iteration,outcome\n"
    "a,x,x,dgx-h100,h100-80g,8,16,megatron-bridge,qwen3_moe,48,2048,32,4,6144,151936,4096,1,1,8,2,,8,128,8,768,,1,512,"
    "bf16,20,ok\n"
    "b,x,x,dgx-h100,h100-80g,8,1024,megatron-bridge,deepseek_v3,61,7168,128,128,18432,129280,4096,2,1,64,8,,64,256,8,"
    "2048,2048,1,8192,bf16,80,ok\n"
    "c,x,x,dgx-h100,h100-80g,8,64,megatron-core,mixtral,32,4096,32,8,14336,32000,4096,1,1,8,4,8,16,8,2,14336,0,1,256,"
    "bf16,5,ok\n"
    "d,x,x,dgx-h100,h100-80g,8,64,megatron-bridge,gpt_oss,36,2880,64,8,2880,201088,4096,1,1,64,1,,64,128,4,2880,0,1,"
    "1280,bf16,9,ok\n";

TEST(ExpertRuns, ATableWithExpertsIsReadAndPriced) {
  const std::vector<MeasuredRun> runs = ParseRuns(kTable, "x");
  const PlannerFiles files = ShippedFiles();
  for (const MeasuredRun& run : runs) {
    const Understood understood = Understand(run, files);
    ASSERT_TRUE(understood.point) << run.id << ": " << understood.reason;
    const RunConfig& config = understood.point->config;
    EXPECT_EQ(config.layout.expert, *run.expert);
    EXPECT_EQ(config.layout.expert_width_ranks(), 1);
    EXPECT_EQ(config.model.experts.count, *run.experts);
    EXPECT_EQ(config.model.experts.ffn, *run.expert_ffn);
    const Cluster& cluster = files.clusters[static_cast<std::size_t>(understood.point->cluster)];
    const SoftwareStack& stack = files.stacks[static_cast<std::size_t>(understood.point->stack)];
    const StackState state = Resolve(stack, cluster, "");
    PipelineClock clock;
    const PlanPoint point = understood.point->PointUnder(cluster, state);
    const StepEstimate estimate = EstimateStep(point, ModelAccount(config.model), clock);
    // Between a tenth and six tenths of the peak, where such runs lie.
    const double mfu = ModelFlops(point) / estimate.seconds / (*run.gpus * 989.4e12);
    EXPECT_GT(mfu, 0.1) << run.id;
    EXPECT_LT(mfu, 0.6) << run.id;
    EXPECT_GT(estimate.terms.experts, 0) << run.id;
  }
  const ModelConfig deepseek = ModelOfRun(runs[1]);
  EXPECT_EQ(deepseek.experts.dense_layers, 3);
  EXPECT_EQ(deepseek.latent.kv_rank, 512);
  EXPECT_NEAR(static_cast<double>(ParameterCount(deepseek)), 671e9, 1e9);
  EXPECT_EQ(ModelOfRun(runs[0]).head_size(), 128) << "not hidden / heads";
}

TEST(ExpertRuns, ChosenIsAnotherNameForExpertsPerToken) {
  std::string text = kTable;
  text.replace(text.find("experts_per_token"), 17, "chosen");
  EXPECT_EQ(ParseRuns(text, "x")[0].experts_per_token, 8);
  text.replace(text.find(",8,2,,8,128"), 11, ",7,2,,8,128");
  EXPECT_THAT(Understand(ParseRuns(text, "x")[0], ShippedFiles()).reason, HasSubstr("does not divide"));
}

}  // namespace
}  // namespace trireme
