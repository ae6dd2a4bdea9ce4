// SmolLM3, OLMo 3 and Granite: Llama's tensors, with kinds of layers or multipliers.
#include <cmath>

#include "base/error.h"
#include "checkpoint/hugging_face/choice_keys.h"
#include "checkpoint/hugging_face/llama_like.h"
#include "checkpoint/hugging_face/rotary_keys.h"

namespace trireme {

ModelConfig llama_like::ParseGraniteShared(const ConfigKeys& keys) {
  ModelConfig model = ParseShared(keys, "granite", {});
  model.embedding_multiplier = keys.Number("embedding_multiplier", 1);
  model.residual_multiplier = keys.Number("residual_multiplier", 1);
  model.attention_multiplier = keys.Number("attention_multiplier", 1);
  model.logits_scaling = keys.Number("logits_scaling", 1);
  return model;
}

nlohmann::json llama_like::FormatGraniteShared(const ModelConfig& model, const char* architecture) {
  nlohmann::json root = FormatShared(model, architecture);
  root["embedding_multiplier"] = model.embedding_multiplier > 0 ? model.embedding_multiplier : 1;
  root["residual_multiplier"] = model.residual_multiplier;
  const double scalar = model.query_scalar > 0 ? model.query_scalar : static_cast<double>(model.head_size());
  root["attention_multiplier"] = model.attention_multiplier > 0 ? model.attention_multiplier : 1 / std::sqrt(scalar);
  root["logits_scaling"] = model.logits_scaling;
  return root;
}

namespace {

using nlohmann::json;

ModelConfig ParseOlmo3(const ConfigKeys& keys) {
  ModelConfig model = llama_like::ParseShared(keys, "olmo3", {.norm_epsilon = 1e-5, .rope_theta = 500000});
  keys.RequireFlag("attention_bias", false);
  const std::int64_t window = keys.Count("sliding_window", std::int64_t{4096});
  model.window = window;
  if (const std::vector<LayerKind> kinds = ParseLayerKinds(keys, model); !kinds.empty()) {
    SetLayers(kinds, window, model);
  }
  return model;
}

// no_rope_layers has a 0 for each layer without positions. Without layer_types those are windowed, where any is.
ModelConfig ParseSmolLm3(const ConfigKeys& keys) {
  ModelConfig model = llama_like::ParseShared(keys, "smollm3", {.rope_theta = 2e6, .tied = true});
  model.attention_bias = ParseBias(keys, "attention_bias", false);
  model.mlp_bias = ParseBias(keys, "mlp_bias", false);
  const std::int64_t interval = keys.Count("no_rope_layer_interval", std::int64_t{4});
  Require(interval > 0 || keys.Has("no_rope_layers"), "'{}': 'no_rope_layer_interval' = {} is not above 0",
          keys.origin(), interval);
  RequireLayers(keys, model);
  std::vector<double> turned;
  for (std::int64_t layer = 1; layer <= model.layers; ++layer) {
    turned.push_back(!keys.Has("no_rope_layers") && layer % interval == 0 ? 0 : 1);
  }
  if (keys.Has("no_rope_layers")) {
    turned = keys.Numbers("no_rope_layers");
    Require(static_cast<std::int64_t>(turned.size()) >= model.layers,
            "'{}': 'no_rope_layers' has {} entries for {} layers", keys.origin(), turned.size(), model.layers);
  }
  const std::int64_t window =
      keys.Flag("use_sliding_window", false) ? keys.Count("sliding_window", std::int64_t{0}) : 0;
  const std::vector<LayerKind> typed = ParseLayerKinds(keys, model);
  std::vector<LayerKind> kinds(static_cast<std::size_t>(model.layers));
  for (std::size_t layer = 0; layer < kinds.size(); ++layer) {
    kinds[layer].positions = turned[layer] != 0;
    kinds[layer].sliding = window > 0 && (typed.empty() ? !kinds[layer].positions : typed[layer].sliding);
  }
  SetLayers(kinds, window, model);
  return model;
}

ModelConfig ParseGranite(const ConfigKeys& keys) {
  ModelConfig model = llama_like::ParseGraniteShared(keys);
  model.attention_bias = ParseBias(keys, "attention_bias", false);
  model.mlp_bias = ParseBias(keys, "mlp_bias", false);
  return model;
}

json FormatOlmo3(const ModelConfig& model) {
  json root = llama_like::FormatShared(model, "Olmo3ForCausalLM");
  root["sliding_window"] = model.window > 0 ? model.window : model.sequence;
  root["layer_types"] = LayerTypesJson(model);
  return root;
}

json FormatSmolLm3(const ModelConfig& model) {
  json root = llama_like::FormatShared(model, "SmolLM3ForCausalLM");
  root["mlp_bias"] = model.linear_bias;
  root["use_sliding_window"] = model.window > 0;
  root["sliding_window"] = model.window > 0 ? json(model.window) : json(nullptr);
  root["layer_types"] = LayerTypesJson(model);
  json turned = json::array();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    turned.push_back(model.AttentionOf(layer).rotary ? 1 : 0);
  }
  root["no_rope_layers"] = turned;
  if (model.vocabulary <= 128004) {
    root["pad_token_id"] = nullptr;  // transformers takes 128004 otherwise, which must be a row of the table
  }
  return root;
}

json FormatGranite(const ModelConfig& model) {
  json root = llama_like::FormatGraniteShared(model, "GraniteForCausalLM");
  root["mlp_bias"] = model.linear_bias;
  return root;
}

void ListLlamaVariant(const ParameterTable& table, TensorList& list) {
  llama_like::ListTensors(table, false, list, {});
}

}  // namespace

std::vector<HuggingFaceFamily> HuggingFaceLlamaVariants() {
  return {{"smollm3", "smollm3", ParseSmolLm3, FormatSmolLm3, ListLlamaVariant},
          {"olmo3", "olmo3", ParseOlmo3, FormatOlmo3, ListLlamaVariant},
          {"granite", "granite", ParseGranite, FormatGranite, ListLlamaVariant}};
}

}  // namespace trireme
