#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "message_of.h"
#include "model/block_description.h"
#include "model/parameter_table.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string MessageOf(const ModelConfig& config) {
  return test::MessageOf([&] { Completed(config); });
}

std::string MessageOf(const ModelConfig& config, const ParallelLayout& layout) {
  return test::MessageOf([&] { RequireDivisible(config, layout); });
}

TEST(ModelFamily, SetsItsChoices) {
  const ModelConfig gpt2 = Completed({.family = "gpt2"});
  EXPECT_EQ(gpt2.position, PositionChoice::kLearned);
  EXPECT_TRUE(gpt2.tie_embeddings);
  EXPECT_EQ(gpt2.ffn, 4 * gpt2.hidden);
  const ModelConfig bloom = Completed({.family = "bloom"});
  EXPECT_EQ(bloom.position, PositionChoice::kAlibi);
  EXPECT_TRUE(bloom.embedding_norm);
  const ModelConfig llama = Completed({.family = "llama"});
  EXPECT_EQ(llama.norm, NormKind::kRms);
  EXPECT_EQ(llama.feed_forward, ActivationKind::kSwiGlu);
  EXPECT_FALSE(llama.linear_bias);
  EXPECT_FALSE(llama.tie_embeddings);
}

TEST(ModelFamily, TheNormBehindTheEmbeddingMayBeChosen) {
  EXPECT_TRUE(Completed({.family = "gpt2", .embedding_norm_choice = EmbeddingNormChoice::kYes}).embedding_norm);
  EXPECT_FALSE(Completed({.family = "bloom", .embedding_norm_choice = EmbeddingNormChoice::kNo}).embedding_norm);
  const ModelConfig gpt2 = Completed({.family = "gpt2"});
  EXPECT_EQ(ParameterCount(Completed({.family = "gpt2", .embedding_norm_choice = EmbeddingNormChoice::kYes})),
            ParameterCount(gpt2) + 2 * gpt2.hidden);
}

TEST(ModelFamily, KeepsWhatTheUserGave) {
  const ModelConfig llama =
      Completed({.family = "llama", .kv_heads = 2, .ffn = 100, .tie_embeddings = true}, /*tie_given=*/true);
  EXPECT_TRUE(llama.tie_embeddings);
  EXPECT_EQ(llama.ffn, 100);
  EXPECT_EQ(llama.kv_heads, 2);
}

TEST(ModelFamily, LlamaRoundsItsInnerWidthAsPublished) {
  EXPECT_EQ(Completed({.family = "llama", .hidden = 4096, .heads = 32}).ffn, 11008);
  EXPECT_EQ(Completed({.family = "llama", .hidden = 5120, .heads = 40}).ffn, 13824);
  EXPECT_EQ(Completed({.family = "llama", .hidden = 64}).ffn, 176);
}

TEST(ModelFamily, AnUnknownNameOffersTheNearest) {
  EXPECT_THAT(MessageOf({.family = "lama"}), HasSubstr("did you mean 'llama'?"));
}

TEST(Completed, IsStable) {
  for (const ModelFamily& family : ModelFamilies()) {
    const ModelConfig once = Completed({.family = family.name});
    EXPECT_EQ(Completed(once, true), once) << family.name;
  }
}

TEST(Completed, RefusesShapesThatCannotBe) {
  EXPECT_THAT(MessageOf({.layers = 0}), HasSubstr("model.layers = 0"));
  EXPECT_THAT(MessageOf({.layers = 1'000'000'000'000'000'000}), HasSubstr("nearest that works is 10000"));
  EXPECT_THAT(MessageOf({.hidden = -4}), HasSubstr("model.hidden = -4"));
  EXPECT_THAT(MessageOf({.hidden = 64, .heads = 5}), HasSubstr("the nearest that does is 4 or 8"));
  EXPECT_THAT(MessageOf({.hidden = 64, .heads = 8, .kv_heads = 3}), HasSubstr("model.kv_heads = 3"));
  EXPECT_THAT(MessageOf({.family = "llama", .hidden = 12, .heads = 4}), HasSubstr("must be even, such as hidden = 16"));
  EXPECT_THAT(MessageOf({.vocabulary = std::numeric_limits<std::int64_t>::max()}), HasSubstr("model.vocabulary"));
  EXPECT_THAT(MessageOf({.dropout = 1.0}), HasSubstr("model.dropout = 1"));
  EXPECT_THAT(MessageOf({.norm_epsilon = std::nan("")}), HasSubstr("model.norm_epsilon = nan"));
}

TEST(DescribeBlock, RefusesANormBehindABranchThatHasABias) {
  ModelConfig config;
  config.family = "olmo2";
  config = Completed(config);
  EXPECT_EQ(test::MessageOf([&] { DescribeBlock(config, false); }), "");
  config.linear_bias = true;
  EXPECT_THAT(test::MessageOf([&] { DescribeBlock(config, false); }),
              HasSubstr("family 'olmo2' sets post_norm and linear_bias"));
}

TEST(HeadRanks, AreOneWithoutAContextAxis) {
  ModelConfig config;
  config.heads = 8;
  ParallelLayout layout{.context_kind = ContextKind::kUlyssesRing, .ulysses = 2};
  EXPECT_EQ(HeadRanks(config, layout), 1);
  layout.context = 4;
  EXPECT_EQ(HeadRanks(config, layout), 2);
}

TEST(RequireDivisible, NamesTheFactorAndTheNearestDegree) {
  const ModelConfig config = Completed({.family = "llama", .hidden = 96, .heads = 12, .kv_heads = 4, .ffn = 240});
  EXPECT_EQ(MessageOf(config, {.tensor = 4}), "");
  EXPECT_THAT(MessageOf(config, {.tensor = 5}), HasSubstr("layout.tensor = 5 does not divide model.heads = 12"));
  EXPECT_THAT(MessageOf(config, {.tensor = 5}), HasSubstr("4 or 6"));
  EXPECT_THAT(MessageOf(config, {.tensor = 3}), HasSubstr("model.kv_heads = 4"));
  EXPECT_THAT(MessageOf(Completed({.sequence = 7}), {.tensor = 2, .sequence_parallel = true, .micro_batch = 3}),
              HasSubstr("21 tokens"));
}

TEST(RequireDivisible, SaysWhichContextUlyssesWithARingTakes) {
  const auto message = [](std::int64_t heads, int context, int ulysses) {
    const ModelConfig config =
        Completed({.family = "llama", .hidden = 96, .heads = heads, .kv_heads = heads, .ffn = 240, .sequence = 96});
    ParallelLayout layout;
    layout.context = context;
    layout.context_kind = ContextKind::kUlyssesRing;
    layout.ulysses = ulysses;
    return MessageOf(config, layout);
  };
  EXPECT_EQ(message(12, 4, 2), "");
  EXPECT_THAT(message(12, 2, 0), HasSubstr("which layout.context = 2 cannot be; set layout.context = 4"));
  EXPECT_THAT(message(12, 3, 3), HasSubstr("which layout.context = 3 cannot be"));
  EXPECT_THAT(message(3, 4, 0), HasSubstr("no divisor of layout.context = 4 divides the heads of a tensor rank"));
  EXPECT_THAT(message(12, 6, 4), HasSubstr("several groups of layout.ulysses = 4"));
}

TEST(ParameterCount, EqualsTheSumOfTheTable) {
  for (const ModelFamily& family : ModelFamilies()) {
    for (const bool tied : {false, true}) {
      ModelConfig config{
          .family = family.name, .layers = 3, .hidden = 48, .heads = 6, .kv_heads = 2, .vocabulary = 301};
      config.tie_embeddings = tied;
      config = Completed(config, true);
      std::int64_t sum = 0;
      const ParameterTable table(config);
      for (const Parameter& parameter : table.rows()) {
        sum += parameter.shape.count();
      }
      EXPECT_EQ(ParameterCount(config), sum) << family.name;
    }
  }
}

TEST(ParameterCount, EqualsPublishedModelsWithExperts) {
  ModelConfig olmoe{
      .family = "olmoe", .layers = 16, .hidden = 2048, .heads = 16, .ffn = 1024, .vocabulary = 50304, .sequence = 4096};
  olmoe.experts = {.count = 64, .chosen = 8};
  EXPECT_EQ(ParameterCount(Completed(olmoe)), 6'919'161'856);
  ModelConfig qwen3{.family = "qwen3_moe",
                    .layers = 48,
                    .hidden = 2048,
                    .heads = 32,
                    .kv_heads = 4,
                    .head_dim = 128,
                    .ffn = 6144,
                    .vocabulary = 151936};
  qwen3.experts = {.count = 128, .chosen = 8, .ffn = 768};
  EXPECT_EQ(ParameterCount(Completed(qwen3)), 30'532'122'624);
  ModelConfig qwen2{
      .family = "qwen2_moe", .layers = 24, .hidden = 2048, .heads = 16, .ffn = 5632, .vocabulary = 151936};
  qwen2.experts = {.count = 60, .chosen = 4, .ffn = 1408, .shared_ffn = 5632, .shared_gate = true};
  EXPECT_EQ(ParameterCount(Completed(qwen2)), 14'315'784'192);
}

TEST(Completed, SaysWhatExpertsLack) {
  ModelConfig config{.family = "llama"};
  config.experts = {.count = 4};
  EXPECT_THAT(test::MessageOf([&] { Completed(config); }), testing::HasSubstr("experts_per_token"));
  config.experts = {.count = 4, .chosen = 5};
  EXPECT_THAT(test::MessageOf([&] { Completed(config); }), testing::HasSubstr("between 1 and 4"));
  config.experts = {.chosen = 2};
  EXPECT_THAT(test::MessageOf([&] { Completed(config); }), testing::HasSubstr("model.experts is 0"));
  config.experts = {.count = 4, .chosen = 2, .shared_gate = true};
  EXPECT_THAT(test::MessageOf([&] { Completed(config); }), testing::HasSubstr("shared_ffn"));
  config.family = "gpt2";
  config.experts = {.count = 4, .chosen = 2};
  EXPECT_THAT(test::MessageOf([&] { Completed(config); }), testing::HasSubstr("take 'llama'"));
  config.family = "mixtral";
  EXPECT_EQ(Completed(config).family, "mistral");
  config.experts = {};
  EXPECT_THAT(test::MessageOf([&] { Completed(config); }), testing::HasSubstr("needs model.experts"));
}

TEST(ParameterCount, EqualsPublishedModels) {
  EXPECT_EQ(ParameterCount(Completed(
                {.family = "gpt2", .layers = 12, .hidden = 768, .heads = 12, .vocabulary = 50257, .sequence = 1024})),
            124'439'808);
  EXPECT_EQ(
      ParameterCount(Completed(
          {.family = "bloom", .layers = 70, .hidden = 14336, .heads = 112, .vocabulary = 250880, .sequence = 2048})),
      176'247'271'424);
  EXPECT_EQ(ParameterCount(Completed({.family = "llama",
                                      .layers = 32,
                                      .hidden = 4096,
                                      .heads = 32,
                                      .kv_heads = 8,
                                      .ffn = 14336,
                                      .vocabulary = 128256,
                                      .sequence = 8192})),
            8'030'261'248);
}

TEST(AlibiSlopes, OfMptTakeOddPlacesOfTheNextPowerOfTwoFirst) {
  const std::vector<float> eight = AlibiSlopes(8);
  EXPECT_EQ(AlibiSlopesOf(Completed({.family = "mpt", .heads = 8})), eight);
  EXPECT_EQ(AlibiSlopesOf(Completed({.family = "mpt", .hidden = 60, .heads = 6})),
            (std::vector{eight[1], eight[3], eight[5], eight[7], eight[0], eight[2]}));
  EXPECT_EQ(AlibiSlopesOf(Completed({.family = "bloom", .hidden = 60, .heads = 6})), AlibiSlopes(6));
}

TEST(AlibiSlopes, AreThoseOfBloom) {
  const std::vector<float> eight = AlibiSlopes(8);
  for (std::size_t head = 0; head < 8; ++head) {
    EXPECT_FLOAT_EQ(eight[head], std::exp2(-static_cast<float>(head + 1)));
  }
  const std::vector<float> six = AlibiSlopes(6);
  EXPECT_THAT(six, testing::ElementsAre(0.25F, 0.0625F, 0.015625F, 0.00390625F, 0.5F, 0.125F));
}

}  // namespace
}  // namespace trireme
