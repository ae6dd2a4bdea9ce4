#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/format/bounded_json.h"
#include "checkpoint/hugging_face/families.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "data/files/json_file.h"

namespace trireme {
namespace {

using nlohmann::json;

// Keys that say nothing about what a model computes.
bool IsAbout(const std::string& key) {
  static const std::set<std::string> known = {
      "_name_or_path", "architectures", "auto_map",     "bos_token_id", "cache_implementation", "dtype",
      "eos_token_id",  "model_type",    "pad_token_id", "torch_dtype",  "transformers_version", "use_cache",
      "pretraining_tp"};
  return known.contains(key);
}

// The base of a windowed layer's positions.
double BaseOf(const ModelConfig& model) {
  return model.local_rope_theta > 0 ? model.local_rope_theta : model.rope_theta;
}

struct ParsedConfig {
  ModelConfig model;
  std::vector<std::string> unread;
};

ParsedConfig ParseWhole(const std::string& text, const std::string& origin) {
  const json root = ParseBoundedJson(text, origin, {.depth = 64, .values = 100'000, .unique_keys = true});
  const ConfigKeys keys(root, origin);
  const ModelConfig model = HuggingFaceFamilyOf(TextOf(root, "model_type", origin), origin).parse(keys);
  ParsedConfig parsed;
  for (const std::string& key : keys.Unread()) {
    if (!IsAbout(key)) {
      parsed.unread.push_back(key);
    }
  }
  try {
    parsed.model = Completed(model, true);
  } catch (const Error& error) {
    Fail("'{}': {}", origin, error.what());
  }
  return parsed;
}

// An Error for what the family's form leaves out: the text would be another model's.
void RequireSaid(const ModelConfig& model, const std::string& type, const std::string& text) {
  const auto require = [&](bool said, const char* key, const auto& value) {
    Require(said, "model.{} = {} cannot be exported: Hugging Face's '{}' has no key for it", key, value, type);
  };
  const ModelConfig said = ParseWhole(text, "the model's config.json").model;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    require(said.AttentionOf(layer) == model.AttentionOf(layer), model.layer_types.empty() ? "window" : "layer_types",
            model.layer_types.empty() ? std::to_string(model.window) : "'" + model.layer_types + "'");
    const bool local = model.AttentionOf(layer).window > 0 && model.AttentionOf(layer).rotary;
    require(!local || BaseOf(said) == BaseOf(model), "local_rope_theta", model.local_rope_theta);
  }
  const auto scale = [](const ModelConfig& of) {
    const double scalar = of.query_scalar > 0 ? of.query_scalar : static_cast<double>(of.head_size());
    return of.attention_multiplier > 0 ? of.attention_multiplier : 1 / std::sqrt(scalar);
  };
  require(scale(said) == scale(model), model.attention_multiplier > 0 ? "attention_multiplier" : "query_scalar",
          model.attention_multiplier > 0 ? model.attention_multiplier : model.query_scalar);
  const auto embedding = [](const ModelConfig& of) {
    return of.embedding_multiplier > 0 ? of.embedding_multiplier : of.scale_embedding ? 0 : 1;
  };
  require(embedding(said) == embedding(model), "embedding_multiplier", model.embedding_multiplier);
  require(said.residual_multiplier == model.residual_multiplier, "residual_multiplier", model.residual_multiplier);
  require(said.logits_scaling == model.logits_scaling, "logits_scaling", model.logits_scaling);
  require(said.rope_magnitude == model.rope_magnitude, "rope_magnitude", model.rope_magnitude);
  require(said.scores_by_layer == model.scores_by_layer, "scores_by_layer", model.scores_by_layer);
  require(said.attention_cap == model.attention_cap, "attention_cap", model.attention_cap);
  require(said.logit_cap == model.logit_cap, "logit_cap", model.logit_cap);
  require(said.qkv_bias == model.qkv_bias && said.out_bias == model.out_bias, "attention_bias",
          Name(model.attention_bias));
  require(said.linear_bias == model.linear_bias, "mlp_bias", Name(model.mlp_bias));
  require(said.feed_forward == model.feed_forward, "activation", Name(model.activation));
}

}  // namespace

ModelConfig ParseHuggingFaceConfig(const std::string& text, const std::string& origin) {
  return ParseWhole(text, origin).model;
}

std::vector<std::string> UnusedConfigKeys(const std::string& text, const std::string& origin) {
  return ParseWhole(text, origin).unread;
}

ModelConfig ReadHuggingFaceConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  return ParseHuggingFaceConfig(ReadBoundedFile(path, kLargestHuggingFaceConfig), path);
}

std::string FormatHuggingFaceConfig(const ModelConfig& model, const std::string& dtype) {
  const HuggingFaceFamily& family = HuggingFaceFamilyOf(model);
  ModelConfig usual = model;
  usual.embedding_norm_choice = EmbeddingNormChoice::kAutomatic;
  Require(
      Completed(usual, true).embedding_norm == model.embedding_norm,
      "model.embedding_norm = '{}': Hugging Face's {} has {} norm behind the embedding, so that this model cannot be "
      "exported to it",
      Name(model.embedding_norm_choice), family.model_type, model.embedding_norm ? "no" : "a");
  json root = family.format(model);
  root["model_type"] = family.model_type;
  root["tie_word_embeddings"] = model.tie_embeddings;
  root["torch_dtype"] = dtype == "bf16" ? "bfloat16" : "float32";
  root["use_cache"] = true;
  std::string text = JsonText(root, {.indent = 2}) + "\n";
  RequireSaid(model, family.model_type, text);
  return text;
}

}  // namespace trireme
