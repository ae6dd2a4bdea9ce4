// Patterns of layers, and choices of a block that recipes take instead of the family.
#include "model/layer_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"
#include "model/model_config.h"

namespace trireme {
namespace {

using testing::HasSubstr;

std::string CompletionError(const ModelConfig& config) {
  return test::MessageOf([&] { Completed(config); });
}

TEST(LayerTypes, AreWrittenAsTheShortestPattern) {
  const auto rewritten = [](const char* text) { return FormatLayerTypes(ParseLayerTypes(text)); };
  EXPECT_EQ(rewritten("3*sliding,full"), "3*sliding, full");
  EXPECT_EQ(rewritten("sliding, sliding, full, sliding, sliding, full"), "2*sliding, full");
  EXPECT_EQ(rewritten(" 2 * full_nope , sliding_nope "), "2*full_nope, sliding_nope");
  EXPECT_EQ(rewritten("full, full"), "full");
  EXPECT_EQ(rewritten("full, sliding, full"), "full, sliding, full") << "a fourth layer sees all keys";
  EXPECT_EQ(rewritten(""), "");
  EXPECT_EQ(ParseLayerTypes("28*full, 4*sliding").size(), 32U);
}

TEST(LayerTypes, RefusesWhatIsNoPattern) {
  const auto refusal = [](const char* text) { return test::MessageOf([&] { ParseLayerTypes(text); }); };
  EXPECT_THAT(refusal("full, chunked"), HasSubstr("model.layer_types: 'chunked' is no kind of layer"));
  EXPECT_THAT(refusal("full,,full"), HasSubstr("'' is no kind"));
  for (const char* count : {"0*full", "x*full", "-1*full", "1000000*full", "*full", "99999999999999999999*full"}) {
    EXPECT_THAT(refusal(count), HasSubstr("is no count from 1 to 10000")) << count;
  }
  EXPECT_THAT(refusal("9000*full, 9000*sliding"), HasSubstr("more than 10000"));
}

TEST(LayerTypes, AreRepeatedOverTheLayers) {
  const ModelConfig model =
      Completed({.family = "qwen3", .layers = 5, .window = 8, .layer_types = "sliding, full_nope"});
  for (std::int64_t layer = 0; layer < 5; ++layer) {
    EXPECT_EQ(model.AttentionOf(layer), (layer % 2 == 0 ? AttentionKind{.window = 8, .rotary = true}
                                                        : AttentionKind{.window = 0, .rotary = false}));
  }
  EXPECT_THAT(AttentionKinds(model),
              testing::ElementsAre(testing::Pair(AttentionKind{.window = 0, .rotary = false}, 2),
                                   testing::Pair(AttentionKind{.window = 8, .rotary = true}, 3)));
  EXPECT_EQ(Completed(model, true), model);
}

TEST(LayerTypes, WindowPeriodStaysWhatItWas) {
  const ModelConfig period = Completed({.family = "gemma3", .layers = 7, .window = 8, .window_period = 3});
  const ModelConfig pattern =
      Completed({.family = "gemma3", .layers = 7, .window = 8, .layer_types = "2*sliding, full"});
  EXPECT_EQ(pattern.window_period, 0);
  for (std::int64_t layer = 0; layer < 7; ++layer) {
    EXPECT_EQ(period.AttentionOf(layer), pattern.AttentionOf(layer)) << layer;
  }
}

TEST(LayerTypes, OfFamilies) {
  const ModelConfig smollm = Completed({.family = "smollm3", .layers = 4});
  EXPECT_EQ(smollm.layer_types, "3*full, full_nope");
  EXPECT_TRUE(smollm.AttentionOf(2).rotary);
  EXPECT_FALSE(smollm.AttentionOf(3).rotary);
  const ModelConfig olmo = Completed({.family = "olmo3", .layers = 4, .rope_theta = 5e5, .window = 16});
  EXPECT_EQ(olmo.WindowOf(2), 16);
  EXPECT_EQ(olmo.WindowOf(3), 0);
  EXPECT_EQ(olmo.local_rope_theta, 5e5);
}

TEST(LayerTypes, RefusesWhatDoesNotGoTogether) {
  EXPECT_THAT(CompletionError({.family = "llama", .layer_types = "sliding"}), HasSubstr("but model.window is 0"));
  EXPECT_THAT(CompletionError({.family = "llama", .window = 4, .window_period = 2, .layer_types = "sliding"}),
              HasSubstr("model.window_period = 2 both say"));
  EXPECT_THAT(CompletionError({.family = "gpt2", .layer_types = "full_nope"}), HasSubstr("'gpt2' has others"));
  EXPECT_EQ(CompletionError({.family = "gpt2", .window = 4, .layer_types = "full, sliding"}), "");
}

TEST(BlockChoices, ReplaceTheFamilys) {
  const ModelConfig llama =
      Completed({.family = "llama", .activation = ActivationChoice::kGelu, .attention_bias = BiasChoice::kYes});
  EXPECT_EQ(llama.feed_forward, ActivationKind::kExactGeGlu);
  EXPECT_TRUE(llama.qkv_bias && llama.out_bias);
  EXPECT_FALSE(llama.linear_bias);
  const ModelConfig gpt2 =
      Completed({.family = "gpt2", .activation = ActivationChoice::kGelu, .mlp_bias = BiasChoice::kNo});
  EXPECT_EQ(gpt2.feed_forward, ActivationKind::kExactGelu);
  EXPECT_TRUE(gpt2.qkv_bias && gpt2.out_bias);
  EXPECT_FALSE(gpt2.linear_bias);
}

TEST(BlockChoices, RefusesWhatNoBlockComputes) {
  EXPECT_THAT(CompletionError({.family = "llama", .activation = ActivationChoice::kSquaredRelu}),
              HasSubstr("model.activation = 'relu2'"));
  EXPECT_THAT(CompletionError({.family = "olmo2", .attention_bias = BiasChoice::kYes}),
              HasSubstr("model.attention_bias = 'yes' in family 'olmo2'"));
  EXPECT_THAT(CompletionError({.family = "gpt2", .residual_multiplier = 0.5}),
              HasSubstr("model.residual_multiplier = 0.5"));
  EXPECT_EQ(CompletionError({.family = "gpt2",
                             .residual_multiplier = 0.5,
                             .attention_bias = BiasChoice::kNo,
                             .mlp_bias = BiasChoice::kNo}),
            "");
  EXPECT_THAT(CompletionError({.family = "llama", .logits_scaling = 0}), HasSubstr("model.logits_scaling = 0"));
}

}  // namespace
}  // namespace trireme
