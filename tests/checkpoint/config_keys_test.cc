// Kinds of layers, multipliers, biases and activations in a config.json; and the keys that are refused, whose list
// stands in docs/reference/families.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/hugging_face/families.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "message_of.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

ModelConfig Parse(const json& more) {
  json root = {{"num_hidden_layers", 4}, {"hidden_size", 64},       {"num_attention_heads", 4},
               {"vocab_size", 100},      {"intermediate_size", 96}, {"max_position_embeddings", 64}};
  root.update(more);
  return ParseHuggingFaceConfig(JsonText(root), "x");
}

std::string Refusal(const json& more) {
  return test::MessageOf([&] { Parse(more); });
}

void ExpectSaid(const ModelConfig& model) {
  EXPECT_EQ(ParseHuggingFaceConfig(FormatHuggingFaceConfig(model, "fp32"), "x"), model);
}

TEST(LayerTypesOfConfig, AreReadInAnyOrder) {
  const json types = {kFull, kSliding, kSliding, kFull};
  for (const char* type : {"qwen2", "qwen3", "gemma2", "gemma3_text", "olmo3"}) {
    const ModelConfig model =
        Parse({{"model_type", type}, {"use_sliding_window", true}, {"sliding_window", 8}, {"layer_types", types}});
    EXPECT_EQ(model.layer_types, "full, 2*sliding, full") << type;
    EXPECT_EQ(model.WindowOf(0), 0) << type;
    EXPECT_EQ(model.WindowOf(2), 8) << type;
    EXPECT_EQ(model.WindowOf(3), 0) << type;
    ExpectSaid(model);
  }
}

TEST(LayerTypesOfConfig, APeriodStaysAPeriod) {
  const ModelConfig model =
      Parse({{"model_type", "olmo3"}, {"sliding_window", 8}, {"layer_types", {kSliding, kFull, kSliding, kFull}}});
  EXPECT_EQ(model.window_period, 2);
  EXPECT_EQ(model.layer_types, "");
  const ModelConfig all =
      Parse({{"model_type", "gemma2"}, {"sliding_window", 8}, {"layer_types", std::vector<std::string>(4, kSliding)}});
  EXPECT_EQ(all.WindowOf(1), 8) << "the family's period is not taken";
  ExpectSaid(all);
}

TEST(LayerTypesOfConfig, QwenCountsTheLayersBeforeTheWindows) {
  const json base = {{"model_type", "qwen2"}, {"sliding_window", 8}, {"use_sliding_window", true}};
  const auto windowed = [&](const json& more) {
    json root = base;
    root.update(more);
    const ModelConfig model = Parse(root);
    std::vector<bool> found;
    for (std::int64_t layer = 0; layer < 4; ++layer) {
      found.push_back(model.WindowOf(layer) > 0);
    }
    ExpectSaid(model);
    return found;
  };
  EXPECT_EQ(windowed({{"max_window_layers", 3}}), (std::vector{false, false, false, true}));
  EXPECT_EQ(windowed({{"max_window_layers", 0}}), std::vector(4, true));
  EXPECT_EQ(windowed({{"max_window_layers", 9}}), std::vector(4, false));
  EXPECT_EQ(windowed(json::object()), std::vector(4, false)) << "28 of them by default";
  EXPECT_EQ(windowed({{"use_sliding_window", false}}), std::vector(4, false));
}

TEST(LayerTypesOfConfig, SmolLm3HasLayersWithoutPositions) {
  const ModelConfig usual = Parse({{"model_type", "smollm3"}});
  EXPECT_EQ(usual.layer_types, "3*full, full_nope");
  ExpectSaid(usual);
  EXPECT_EQ(Parse({{"model_type", "smollm3"}, {"no_rope_layer_interval", 2}}).layer_types, "full, full_nope");
  const ModelConfig windows = Parse({{"model_type", "smollm3"},
                                     {"no_rope_layers", {0, 1, 0, 1, 1}},
                                     {"use_sliding_window", true},
                                     {"sliding_window", 8}});
  EXPECT_EQ(windows.layer_types, "sliding_nope, full");
  ExpectSaid(windows);
  const ModelConfig all = Parse({{"model_type", "smollm3"}, {"no_rope_layers", {1, 1, 1, 1}}});
  EXPECT_EQ(all.layer_types, "full");
  ExpectSaid(all);
  EXPECT_THAT(Refusal({{"model_type", "smollm3"}, {"no_rope_layers", {1, 1}}}), HasSubstr("'no_rope_layers'"));
  EXPECT_THAT(Refusal({{"model_type", "smollm3"}, {"no_rope_layer_interval", 0}}),
              HasSubstr("'no_rope_layer_interval'"));
}

TEST(LayerTypesOfConfig, RefusesWhatItDoesNotCompute) {
  EXPECT_THAT(Refusal({{"model_type", "qwen2"}, {"layer_types", std::vector<std::string>(4, "linear_attention")}}),
              HasSubstr("'layer_types' has 'linear_attention'"));
  EXPECT_THAT(Refusal({{"model_type", "olmo3"}, {"layer_types", {kFull}}}), HasSubstr("has 1 entries for 4 layers"));
  EXPECT_THAT(Refusal({{"model_type", "qwen3"}, {"layer_types", {kFull, kFull, kFull, kSliding}}}),
              HasSubstr("'use_sliding_window' is false"));
  EXPECT_THAT(Refusal({{"model_type", "qwen2"}, {"use_sliding_window", true}, {"num_hidden_layers", 1'000'000'000}}),
              HasSubstr("'num_hidden_layers'"));
}

// A form that cannot say a choice names it, instead of saying another model.
TEST(HuggingFaceForm, RefusesWhatItCannotSay) {
  const auto refusal = [](ModelConfig model) {
    model = Completed(model, true);
    return test::MessageOf([&] { FormatHuggingFaceConfig(model, "fp32"); });
  };
  EXPECT_THAT(refusal({.family = "llama", .window = 8}), HasSubstr("model.window = 8 cannot be exported"));
  EXPECT_THAT(refusal({.family = "llama", .layer_types = "full, full_nope"}), HasSubstr("model.layer_types"));
  EXPECT_THAT(refusal({.family = "qwen3", .layer_types = "full, full_nope"}), HasSubstr("model.layer_types"));
  EXPECT_THAT(refusal({.family = "llama", .residual_multiplier = 0.5}), HasSubstr("model.residual_multiplier = 0.5"));
  EXPECT_THAT(refusal({.family = "llama", .logits_scaling = 2}), HasSubstr("model.logits_scaling = 2"));
  EXPECT_THAT(refusal({.family = "llama", .embedding_multiplier = 2}), HasSubstr("model.embedding_multiplier = 2"));
  EXPECT_THAT(refusal({.family = "llama", .attention_multiplier = 2}), HasSubstr("model.attention_multiplier = 2"));
  EXPECT_THAT(refusal({.family = "llama", .query_scalar = 2}), HasSubstr("model.query_scalar = 2"));
  EXPECT_THAT(refusal({.family = "llama", .logit_cap = 2}), HasSubstr("model.logit_cap = 2"));
  EXPECT_THAT(refusal({.family = "opt", .scores_by_layer = true}), HasSubstr("model.scores_by_layer"));
  EXPECT_THAT(refusal({.family = "bloom", .activation = ActivationChoice::kRelu}), HasSubstr("model.activation"));
  EXPECT_THAT(refusal({.family = "gpt2", .attention_bias = BiasChoice::kNo}), HasSubstr("model.attention_bias"));
  EXPECT_THAT(refusal({.family = "gpt_neox", .mlp_bias = BiasChoice::kNo}), HasSubstr("model.mlp_bias"));
  EXPECT_THAT(refusal({.family = "opt", .mlp_bias = BiasChoice::kNo}), HasSubstr("_bias"));
  EXPECT_THAT(refusal({.family = "olmo3", .local_rope_theta = 7, .window = 8}), HasSubstr("model.local_rope_theta"));
}

TEST(ConfigKeys, BiasesAndActivationsComeBack) {
  const ModelConfig llama =
      Parse({{"model_type", "llama"}, {"attention_bias", true}, {"mlp_bias", true}, {"hidden_act", "gelu"}});
  EXPECT_TRUE(llama.qkv_bias && llama.out_bias && llama.linear_bias);
  EXPECT_EQ(llama.feed_forward, ActivationKind::kExactGeGlu);
  ExpectSaid(llama);
  for (const auto& [name, kind] :
       {std::pair{"relu", ActivationKind::kRelu}, std::pair{"gelu", ActivationKind::kExactGelu},
        std::pair{"gelu_pytorch_tanh", ActivationKind::kGelu}, std::pair{"silu", ActivationKind::kSilu},
        std::pair{"relu2", ActivationKind::kSquaredRelu}}) {
    const ModelConfig gpt2 = Parse({{"model_type", "gpt2"}, {"activation_function", name}});
    EXPECT_EQ(gpt2.feed_forward, kind) << name;
    ExpectSaid(gpt2);
    ExpectSaid(Parse({{"model_type", "gpt_neox"}, {"hidden_act", name}, {"attention_bias", false}}));
    ExpectSaid(Parse({{"model_type", "opt"}, {"activation_function", name}, {"enable_bias", false}}));
  }
  ExpectSaid(Parse({{"model_type", "gpt2"}, {"scale_attn_weights", false}, {"scale_attn_by_inverse_layer_idx", true}}));
  ExpectSaid(Parse({{"model_type", "granite"},
                    {"embedding_multiplier", 12.0},
                    {"residual_multiplier", 0.22},
                    {"attention_multiplier", 0.0078125},
                    {"logits_scaling", 16.0}}));
}

TEST(ConfigKeys, YarnTakesAMagnitude) {
  const auto yarn = [](const json& more) {
    json scaling = {{"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 16}};
    scaling.update(more);
    const ModelConfig model = Parse({{"model_type", "llama"}, {"rope_scaling", scaling}});
    ExpectSaid(model);
    return model.rope_magnitude;
  };
  EXPECT_EQ(yarn(json::object()), 0) << "the rule's own";
  EXPECT_EQ(yarn({{"attention_factor", 0.1 * std::log(8.0) + 1}}), 0);
  EXPECT_EQ(yarn({{"attention_factor", 1.5}}), 1.5);
  EXPECT_EQ(yarn({{"mscale", 1.0}, {"mscale_all_dim", 1.0}}), 1);
  EXPECT_DOUBLE_EQ(yarn({{"mscale", 0.707}, {"mscale_all_dim", 0.5}}),
                   (0.0707 * std::log(8.0) + 1) / (0.05 * std::log(8.0) + 1));
  EXPECT_EQ(yarn({{"mscale", 0.707}}), 0) << "one alone does not count";
}

// ---- refused keys

std::string ReadText(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Keys that the readers of config.json hold to one value.
std::set<std::string> KeysInSources() {
  static const std::regex call(R"re(Require(?:Flag|Text|Absent)\("(\w+)")re");
  std::set<std::string> keys;
  for (const auto& entry : fs::directory_iterator(TRIREME_SOURCE_DIR "/src/checkpoint/hugging_face")) {
    const std::string text = ReadText(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
      keys.insert((*at)[1].str());
    }
  }
  return keys;
}

bool IsRefused(const std::string& key, const json& config) {
  try {
    ParseHuggingFaceConfig(JsonText(config), "x");
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.find("'" + key + "'") != std::string::npos && text.find("this program computes") != std::string::npos;
  }
  return false;
}

// Whether some family's config.json with another value of the key, wherever it stands, is refused by its name.
bool IsRefusedSomewhere(const std::string& key) {
  const json shape = {{"num_hidden_layers", 2}, {"hidden_size", 64},       {"num_attention_heads", 4},
                      {"vocab_size", 100},      {"intermediate_size", 96}, {"max_position_embeddings", 64}};
  const json eight = {1, 1, 1, 1, 1, 1, 1, 1};
  const json objects[] = {
      json::object(),
      {{"rope_type", "yarn"}, {"factor", 2.0}},
      {{"rope_type", "longrope"},
       {"short_factor", eight},
       {"long_factor", eight},
       {"original_max_position_embeddings", 32}},
  };
  for (const HuggingFaceFamily& family : HuggingFaceFamilies()) {
    for (const json& value : {json(true), json(false), json(1), json("other")}) {
      json root = shape;
      root["model_type"] = family.model_type;
      json changed = root;
      changed[key] = value;
      if (IsRefused(key, changed)) {
        return true;
      }
      for (const char* place : {"attn_config", "rope_scaling"}) {
        for (const json& object : objects) {
          changed = root;
          changed[place] = object;
          changed[place][key] = value;
          if (IsRefused(key, changed)) {
            return true;
          }
        }
      }
      changed = root;
      changed["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}}},
                                    {"sliding_attention", {{key, value}}}};
      if (IsRefused(key, changed)) {
        return true;
      }
    }
  }
  return false;
}

TEST(RefusedKeys, AreThoseOfTheDocumentation) {
  std::string list;
  for (const std::string& key : KeysInSources()) {
    EXPECT_TRUE(IsRefusedSomewhere(key)) << key;
    list += (list.empty() ? "`" : ", `") + key + "`";
  }
  std::string page = ReadText(TRIREME_SOURCE_DIR "/docs/reference/families.md");
  std::replace(page.begin(), page.end(), '\n', ' ');
  EXPECT_THAT(page, HasSubstr("which this program holds to one value: " + list + ".")) << "the list of the page";
}

}  // namespace
}  // namespace trireme
