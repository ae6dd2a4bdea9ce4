#include "planner/queries/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"
#include "planner/fixtures.h"

namespace trireme {
namespace {

using test::kLlamaConfig;
using test::MessageOf;
using testing::HasSubstr;

std::string Changed(const std::string& from, const std::string& to) {
  std::string text = kLlamaConfig;
  return text.replace(text.find(from), from.size(), to);
}

TEST(ModelShape, ReadsConfigsOfTheHub) {
  const ModelConfig llama = ParseModelShape(kLlamaConfig, "x");
  EXPECT_EQ(ParameterCount(llama), 8'030'261'248);
  EXPECT_EQ(llama.sequence, 8192) << "not the whole of 131072";
  EXPECT_EQ(ParseModelShape(Changed("\"llama\"", "\"mistral\""), "x").kv_heads, 8);
  EXPECT_EQ(ParseModelShape(Changed("{", "{\"head_dim\":256,"), "x").head_size(), 256);
  const ModelConfig gpt2 = ParseModelShape(
      R"({"model_type":"gpt2","n_layer":12,"n_embd":768,"n_head":12,"n_positions":1024,"vocab_size":50257})", "x");
  EXPECT_EQ(ParameterCount(gpt2), 124'439'808);
}

TEST(ModelShape, WhatItWouldPriceWronglyIsRefused) {
  EXPECT_THAT(MessageOf([] { ParseModelShape("[1]", "x"); }), HasSubstr("no JSON object"));
  EXPECT_THAT(MessageOf([] { ParseModelShape("{", "x"); }), HasSubstr("no JSON object"));
  EXPECT_THAT(MessageOf([] { ParseModelShape("{}", "x"); }), HasSubstr("lacks \"model_type\""));
  EXPECT_THAT(MessageOf([] { ParseModelShape(Changed("\"llama\"", "\"t5\""), "x"); }), HasSubstr("'t5' is unknown"));
  EXPECT_THAT(MessageOf([] { ParseModelShape(Changed("32,", "\"32\","), "x"); }), HasSubstr("must be a whole number"));
  EXPECT_THAT(MessageOf([] { ParseModelShape(Changed("\"num_hidden_layers\":32,", ""), "x"); }),
              HasSubstr("lacks \"num_hidden_layers\" or \"n_layer\""));
  EXPECT_THAT(MessageOf([] { ParseModelShape(Changed("{", "{\"num_local_experts\":8,"), "x"); }),
              HasSubstr("experts of model_type 'llama' cannot be planned"));
  const ModelConfig mixtral = ParseModelShape(
      R"({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
          "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8,
          "num_experts_per_tok": 2, "tie_word_embeddings": false})",
      "x");
  EXPECT_EQ(ParameterCount(mixtral), 46'702'792'704);
  EXPECT_EQ(ActiveParameterCount(mixtral), 12'879'925'248);
  EXPECT_THAT(MessageOf([] { ParseModelShape(Changed("4096", "4097"), "x"); }), HasSubstr("4097"));
}

TEST(ModelShape, ReadsLatentAttentionAndDenseLayersBetween) {
  const ModelConfig model = ParseModelShape(
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
          "num_key_value_heads": 128, "intermediate_size": 18432, "vocab_size": 129280, "n_routed_experts": 256,
          "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3,
          "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128,
          "tie_word_embeddings": false})",
      "x");
  // As the safetensors index of the release adds up, without its further head.
  EXPECT_NEAR(static_cast<double>(ParameterCount(model)), 671.03e9, 0.02e9);
  EXPECT_EQ(model.SparseLayers(), 58);
}

}  // namespace
}  // namespace trireme
