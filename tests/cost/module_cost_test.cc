#include "cost/module_cost.h"

#include <gtest/gtest.h>

#include "base/causal_pairs.h"
#include "cost/formulas.h"
#include "cost/step_cost.h"

namespace trireme {
namespace {

ModelConfig Model(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.layers = 3;
  config.hidden = 32;
  config.heads = 4;
  config.kv_heads = family == "llama" ? 2 : 4;
  config.ffn = 48;
  config.vocabulary = 64;  // no padding
  config.sequence = 16;
  return Completed(config);
}

TEST(ModuleCost, ABlocksProductsAreTwiceItsMatricesATokenAndBackwardTwiceThat) {
  for (const std::string family : {"gpt2", "bloom", "llama"}) {
    const ModelConfig model = Model(family);
    const ParallelLayout layout{.micro_batch = 2};
    const LocalSizes sizes(model, layout, DType::kFloat32, false);
    const ModuleCost cost = CostOfBlock(sizes, model);
    const std::int64_t qkv = (model.heads + 2 * model.kv_heads) * model.head_size();
    const std::int64_t gates = family == "llama" ? 3 : 2;
    const std::int64_t matrices = 32 * qkv + 32 * 32 + gates * 32 * 48;
    EXPECT_EQ(cost.forward.flops.matmul, 2 * sizes.tokens * matrices) << family;
    EXPECT_EQ(cost.backward_input.flops.matmul + cost.backward_weight.flops.matmul, 4 * sizes.tokens * matrices);
    EXPECT_EQ(cost.forward.flops.recomputed, 0);
  }
}

TEST(ModuleCost, FullRecomputationCountsTheForwardAgainButForTheLastProduct) {
  const ModelConfig model = Model("gpt2");
  const LocalSizes plain(model, {.micro_batch = 2}, DType::kFloat32, false);
  const LocalSizes again(model, {.recompute = Recompute::kFull, .micro_batch = 2}, DType::kFloat32, false);
  const ModuleCost one = CostOfBlock(plain, model);
  const ModuleCost other = CostOfBlock(again, model);
  EXPECT_EQ(one.backward_input.flops.recomputed, 0);
  const std::int64_t forward = one.forward.flops.matmul + one.forward.flops.attention;
  EXPECT_EQ(other.backward_input.flops.recomputed, forward - 2 * plain.tokens * 48 * 32);
}

TEST(ModuleCost, AttentionCountsThePairsOfItsWindow) {
  EXPECT_EQ(CausalPairs(4), 10);
  EXPECT_EQ(CausalPairs(4, 4), 10);
  EXPECT_EQ(CausalPairs(4, 9), 10);
  EXPECT_EQ(CausalPairs(4, 1), 4);
  EXPECT_EQ(CausalPairs(16, 5), 1 + 2 + 3 + 4 + 12 * 5);
  ModelConfig model = Model("gemma2");
  model.window = 5;
  const LocalSizes sizes(model, {.micro_batch = 2}, DType::kFloat32, false);
  const auto flops = [&](std::int64_t layer) {
    return CostOfBlock(sizes.ForLayer(model, layer), model).forward.flops.attention;
  };
  EXPECT_EQ(flops(0), 2 * 4 * CausalPairs(16, 5) * 4 * 8);
  EXPECT_EQ(flops(1), 2 * 4 * CausalPairs(16) * 4 * 8) << "every other layer sees all keys";
}

TEST(ModuleCost, LayersWithoutPositionsKeepAsMuchAndTouchLess) {
  ModelConfig model = Model("llama");
  model.layer_types = "full, full_nope";
  model = Completed(model, true);
  const LocalSizes sizes(model, {.micro_batch = 2}, DType::kFloat32, false);
  const LocalSizes turned = sizes.ForLayer(model, 0);
  const LocalSizes plain = sizes.ForLayer(model, 1);
  EXPECT_EQ(PlanBlock(model, plain).kept_bytes, PlanBlock(model, turned).kept_bytes);
  // Queries, keys and values are read and written.
  EXPECT_EQ(CostOfBlock(turned, model).forward.bytes_touched - CostOfBlock(plain, model).forward.bytes_touched,
            2 * turned.tokens * turned.qkv * turned.element());
}

TEST(ModuleCost, TensorRanksShareTheProducts) {
  const ModelConfig model = Model("llama");
  const ModuleCost whole = CostOfBlock({model, {.micro_batch = 2}, DType::kFloat32, false}, model);
  const ModuleCost half = CostOfBlock({model, {.tensor = 2, .micro_batch = 2}, DType::kFloat32, false}, model);
  EXPECT_EQ(half.forward.flops.matmul * 2, whole.forward.flops.matmul);
  EXPECT_EQ(whole.forward.tensor.calls[static_cast<std::size_t>(CollectiveKind::kAllReduce)], 0);
  EXPECT_EQ(half.forward.tensor.calls[static_cast<std::size_t>(CollectiveKind::kAllReduce)], 2) << "one a branch";
}

TEST(StepCost, AStepOfOneRankIsTheModelsOwnFlops) {
  RunConfig config;
  config.model = Model("gpt2");
  config.batch.global = 6;
  config.layout.micro_batch = 2;
  const StageOfRun stage(config, 0, 6);
  const StepCost cost = CostOfStep(stage.description(), 0);
  // Attention is counted halved by the causal mask in both.
  EXPECT_NEAR(static_cast<double>(cost.flops.total()), ModelFlops(config.model, 6), 0.02 * ModelFlops(config.model, 6));
  for (const Traffic& traffic : cost.traffic) {
    for (const std::int64_t bytes : traffic.bytes) {
      EXPECT_EQ(bytes, 0) << "one rank sends nothing";
    }
  }
}

TEST(StepCost, StagesTogetherDoTheWorkOfOneRank) {
  RunConfig config;
  config.model = Model("llama");
  config.batch.global = 4;
  config.layout.micro_batch = 1;
  const StageOfRun whole(config, 0, 4);
  const std::int64_t expected = CostOfStep(whole.description(), 0).flops.total();
  config.layout.pipeline = 3;
  std::int64_t sum = 0;
  for (int pipeline = 0; pipeline < 3; ++pipeline) {
    const StageOfRun stage(config, pipeline, 4);
    sum += CostOfStep(stage.description(), 0).flops.total();
  }
  EXPECT_EQ(sum, expected);
}

}  // namespace
}  // namespace trireme
