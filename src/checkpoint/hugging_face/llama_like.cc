// The families whose form is Llama's: model.embed_tokens, model.layers.N.self_attn and .mlp, model.norm, lm_head.
#include "checkpoint/hugging_face/llama_like.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "checkpoint/hugging_face/choice_keys.h"
#include "checkpoint/hugging_face/rotary_keys.h"

namespace trireme {

using llama_like::Defaults;
using llama_like::FormatQwen;
using llama_like::FormatShared;
using llama_like::ParseQwenWindows;
using llama_like::ParseShared;
using llama_like::WindowJson;
using nlohmann::json;

namespace llama_like {

ModelConfig ParseShared(const ConfigKeys& keys, const char* family, const Defaults& defaults) {
  ModelConfig model{.family = family};
  model.layers = keys.Count("num_hidden_layers", "n_layer");
  model.hidden = keys.Count("hidden_size", "n_embd");
  model.heads = keys.Count("num_attention_heads", "n_head");
  model.kv_heads = keys.Count("num_key_value_heads", model.heads);
  model.ffn = keys.Count("intermediate_size", "n_inner");
  model.vocabulary = keys.Count("vocab_size", std::int64_t{32000});
  model.sequence = keys.Count("max_position_embeddings", std::int64_t{2048});
  model.norm_epsilon = keys.Number("rms_norm_eps", keys.Number("norm_eps", defaults.norm_epsilon));
  model.initial_deviation = keys.Number("initializer_range", 0.02);
  model.tie_embeddings = keys.Flag("tie_word_embeddings", defaults.tied);
  const std::int64_t head = keys.Count("head_dim", defaults.head_dim);
  // A model whose head size follows from the others is the same model with or without the key.
  model.head_dim = model.heads > 0 && head * model.heads == model.hidden ? 0 : head;
  ParseRotary(keys, model, defaults.rope_theta);
  ParseActivation(keys, "hidden_act", defaults.activation, model);
  Require(model.activation != ActivationChoice::kSquaredRelu,
          "'{}': 'hidden_act' = 'relu2': feed-forward parts with gates are not computed with it", keys.origin());
  return model;
}

// Windows of Qwen's configurations count only where they are switched on.
void ParseQwenWindows(const ConfigKeys& keys, ModelConfig& model) {
  if (keys.Flag("use_sliding_window", false)) {
    ParseWindows(keys, model);
    Require(keys.Has("layer_types") || keys.Count("max_window_layers", std::int64_t{0}) == 0,
            "'{}': 'max_window_layers' = {}: windows of some layers are computed where 'layer_types' says which",
            keys.origin(), keys.Count("max_window_layers", std::int64_t{0}));
  }
}

}  // namespace llama_like

namespace {

ModelConfig ParseLlama(const ConfigKeys& keys) {
  ModelConfig model = ParseShared(keys, "llama", {});
  model.attention_bias = ParseBias(keys, "attention_bias", false);
  model.mlp_bias = ParseBias(keys, "mlp_bias", false);
  return model;
}

ModelConfig ParseMistral(const ConfigKeys& keys) {
  ModelConfig model = ParseShared(keys, "mistral", {});
  ParseWindows(keys, model);
  return model;
}

// Without layer_types all layers from max_window_layers on are windowed.
void ParseQwenLayers(const ConfigKeys& keys, ModelConfig& model) {
  const bool windows = keys.Flag("use_sliding_window", false);
  const std::int64_t first = keys.Count("max_window_layers", std::int64_t{28});
  std::vector<LayerKind> kinds = ParseLayerKinds(keys, model);
  if (kinds.empty() && windows) {
    RequireLayers(keys, model);
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
      kinds.push_back({.sliding = layer >= first});
    }
  }
  if (windows) {
    SetLayers(kinds, keys.Count("sliding_window", std::int64_t{4096}), model);
  } else {
    for (const LayerKind& kind : kinds) {
      Require(!kind.sliding, "'{}': 'layer_types' has sliding_attention, but 'use_sliding_window' is false",
              keys.origin());
    }
  }
}

ModelConfig ParseQwen2(const ConfigKeys& keys) {
  ModelConfig model = ParseShared(keys, "qwen2", {});
  ParseQwenLayers(keys, model);
  return model;
}

ModelConfig ParseQwen3(const ConfigKeys& keys) {
  ModelConfig model = ParseShared(keys, "qwen3", {.head_dim = 128});
  model.attention_bias = ParseBias(keys, "attention_bias", false);
  ParseQwenLayers(keys, model);
  return model;
}

ModelConfig ParseOlmo2(const ConfigKeys& keys) {
  ModelConfig model = ParseShared(keys, "olmo2", {.norm_epsilon = 1e-5});
  keys.RequireFlag("attention_bias", false);
  return model;
}

ModelConfig ParsePhi3(const ConfigKeys& keys) {
  ModelConfig model = ParseShared(keys, "phi3", {.norm_epsilon = 1e-5});
  keys.RequireFlag("attention_bias", false);
  ParseWindows(keys, model);
  return model;
}

ModelConfig ParseNemotron(const ConfigKeys& keys) {
  ModelConfig model = ParseShared(keys, "nemotron", {.norm_epsilon = 1e-5, .activation = "relu2"});
  if (model.rotary_fraction == 0) {
    model.rotary_fraction = keys.Number("rope_percent", 0.5);
  }
  keys.RequireFlag("attention_bias", false);
  keys.RequireFlag("mlp_bias", false);
  return model;
}

ModelConfig ParseGemma(const ConfigKeys& keys, const char* family, const Defaults& defaults) {
  ModelConfig model = ParseShared(keys, family, defaults);
  ParseActivation(keys, "hidden_activation", defaults.activation, model);  // whatever hidden_act says
  model.query_scalar = keys.Number("query_pre_attn_scalar", 256);
  model.attention_cap = keys.Number("attn_logit_softcapping", 0);
  model.logit_cap = keys.Number("final_logit_softcapping", 0);
  keys.RequireFlag("attention_bias", false);
  keys.RequireFlag("use_bidirectional_attention", false);
  model.window = keys.Count("sliding_window", std::int64_t{0});
  if (const std::vector<LayerKind> kinds = ParseLayerKinds(keys, model); !kinds.empty()) {
    SetLayers(kinds, model.window, model);
  }
  return model;
}

ModelConfig ParseGemma2(const ConfigKeys& keys) {
  return ParseGemma(keys, "gemma2", {.tied = true, .head_dim = 256, .activation = "gelu_pytorch_tanh"});
}

ModelConfig ParseGemma3(const ConfigKeys& keys) {
  ModelConfig model =
      ParseGemma(keys, "gemma3", {.rope_theta = 1e6, .tied = true, .head_dim = 256, .activation = "gelu_pytorch_tanh"});
  if (model.local_rope_theta == 0) {
    model.local_rope_theta = keys.Number("rope_local_base_freq", 10000);
  }
  if (!keys.Has("layer_types")) {
    model.window_period = keys.Count("sliding_window_pattern", std::int64_t{6});
  }
  return model;
}

}  // namespace

namespace llama_like {

json FormatShared(const ModelConfig& model, const char* architecture) {
  json root = {{"architectures", {architecture}},
               {"num_hidden_layers", model.layers},
               {"hidden_size", model.hidden},
               {"num_attention_heads", model.heads},
               {"num_key_value_heads", model.kv_heads},
               {"head_dim", model.head_size()},
               {"intermediate_size", model.ffn},
               {"max_position_embeddings", model.sequence},
               {"vocab_size", model.vocabulary},
               {"rms_norm_eps", model.norm_epsilon},
               {"initializer_range", model.initial_deviation},
               {"hidden_act", FormatActivation(model)},
               {"attention_bias", model.out_bias},
               {"attention_dropout", 0.0}};
  FormatRotary(model, root);
  return root;
}

// null, or the window of all layers.
json WindowJson(const ModelConfig& model) {
  Require(model.window == 0 || model.window_period == 0,
          "model.window_period = {} cannot be exported: all layers of the family '{}' are windowed",
          model.window_period, model.family);
  return model.window > 0 ? json(model.window) : json(nullptr);
}

json FormatQwen(const ModelConfig& model, const char* architecture) {
  json root = FormatShared(model, architecture);
  root["sliding_window"] = WindowJson(model);
  root["use_sliding_window"] = model.window > 0;
  root["max_window_layers"] = 0;
  return root;
}

}  // namespace llama_like

namespace {

json FormatLlama(const ModelConfig& model) {
  json root = FormatShared(model, "LlamaForCausalLM");
  root["mlp_bias"] = model.linear_bias;
  return root;
}

json FormatMistral(const ModelConfig& model) {
  json root = FormatShared(model, "MistralForCausalLM");
  root["sliding_window"] = WindowJson(model);
  return root;
}

// Qwen's dense models say which layers are windowed.
json FormatQwenLayers(const ModelConfig& model, const char* architecture) {
  if (model.layer_types.empty() && (model.window == 0 || model.window_period == 0)) {
    return FormatQwen(model, architecture);
  }
  json root = FormatShared(model, architecture);
  std::int64_t full = 0;
  while (full < model.layers && model.WindowOf(full) == 0) {
    ++full;
  }
  root["use_sliding_window"] = model.window > 0;
  root["sliding_window"] = model.window > 0 ? json(model.window) : json(nullptr);
  root["max_window_layers"] = full;
  root["layer_types"] = LayerTypesJson(model);
  return root;
}

json FormatQwen2(const ModelConfig& model) {
  Require(model.head_size() * model.heads == model.hidden,
          "model.head_dim = {} cannot be exported: a head of Qwen2 is hidden / heads", model.head_dim);
  json root = FormatQwenLayers(model, "Qwen2ForCausalLM");
  root.erase("head_dim");
  root.erase("attention_bias");
  return root;
}

json FormatQwen3(const ModelConfig& model) { return FormatQwenLayers(model, "Qwen3ForCausalLM"); }

json FormatOlmo2(const ModelConfig& model) { return FormatShared(model, "Olmo2ForCausalLM"); }

json FormatPhi3(const ModelConfig& model) {
  json root = FormatShared(model, "Phi3ForCausalLM");
  root["sliding_window"] = WindowJson(model);
  root["original_max_position_embeddings"] = model.sequence;
  root["partial_rotary_factor"] = model.rotary_fraction > 0 ? model.rotary_fraction : 1.0;
  if (model.vocabulary <= 32000) {
    root["pad_token_id"] = nullptr;  // transformers takes 32000 otherwise, which must be a row of the table
  }
  root["resid_pdrop"] = model.dropout;
  root["embd_pdrop"] = model.dropout;
  return root;
}

json FormatNemotron(const ModelConfig& model) {
  json root = FormatShared(model, "NemotronForCausalLM");
  root.erase("rms_norm_eps");
  root["norm_eps"] = model.norm_epsilon;
  root["partial_rotary_factor"] = model.rotary_fraction;
  root["mlp_bias"] = false;
  return root;
}

// transformers takes whole numbers alone for some keys.
json WholeNumber(double value) {
  return value == std::floor(value) ? json(static_cast<std::int64_t>(value)) : json(value);
}

json FormatGemma(const ModelConfig& model, const char* architecture) {
  json root = FormatShared(model, architecture);
  root.erase("hidden_act");
  root["hidden_activation"] =
      model.activation == ActivationChoice::kAutomatic ? "gelu_pytorch_tanh" : FormatActivation(model);
  root["query_pre_attn_scalar"] =
      WholeNumber(model.query_scalar > 0 ? model.query_scalar : static_cast<double>(model.head_size()));
  root["attn_logit_softcapping"] = model.attention_cap > 0 ? json(model.attention_cap) : json(nullptr);
  root["final_logit_softcapping"] = model.logit_cap > 0 ? json(model.logit_cap) : json(nullptr);
  root["sliding_window"] = model.window > 0 ? model.window : model.sequence;
  root["layer_types"] = LayerTypesJson(model);
  return root;
}

json FormatGemma2(const ModelConfig& model) { return FormatGemma(model, "Gemma2ForCausalLM"); }

json FormatGemma3(const ModelConfig& model) {
  json root = FormatGemma(model, "Gemma3ForCausalLM");
  root["rope_local_base_freq"] = model.local_rope_theta;
  return root;
}

// Names that differ between the families.
struct NormNames {
  const char* before_attention = "input_layernorm";
  const char* after_attention = "post_attention_layernorm";
  const char* before_mlp = "pre_feedforward_layernorm";
  const char* after_mlp = "post_feedforward_layernorm";
};

}  // namespace

namespace llama_like {

void ListTensors(const ParameterTable& table, bool fused, TensorList& list, const ExpertLister& experts) {
  const ModelConfig& model = table.config();
  NormNames norms;
  if (!model.post_norm) {
    norms.before_mlp = "post_attention_layernorm";
  }
  list.Whole("model.embed_tokens.weight", table.token_table());
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    const std::string attention = at + "self_attn.";
    const std::string mlp = at + "mlp.";
    if (fused) {
      list.Linear(attention + "qkv_proj", layer, "attention.qkv");
    } else {
      for (const char* kind : {"weight", "bias"}) {
        list.Segments({attention + "q_proj." + kind, attention + "k_proj." + kind, attention + "v_proj." + kind},
                      table.InBlock(layer, std::string("attention.qkv.") + kind));
      }
    }
    list.Linear(attention + "o_proj", layer, "attention.out");
    list.Norm(attention + "q_norm", layer, "attention.query_norm");
    list.Norm(attention + "k_norm", layer, "attention.key_norm");
    if (model.IsSparse(layer)) {
      experts(layer, at, list);
    } else if (fused) {
      list.Linear(mlp + "gate_up_proj", layer, "mlp.in");
    } else if (IsGated(model.feed_forward)) {
      for (const char* kind : {"weight", "bias"}) {
        list.Segments({mlp + "gate_proj." + kind, mlp + "up_proj." + kind},
                      table.InBlock(layer, std::string("mlp.in.") + kind));
      }
    } else {
      list.Linear(mlp + "up_proj", layer, "mlp.in");
    }
    list.Linear(mlp + "down_proj", layer, "mlp.out");
    list.Norm(at + norms.before_attention, layer, "attention.norm");
    list.Norm(at + norms.after_attention, layer, "attention.post_norm");
    list.Norm(at + norms.before_mlp, layer, "mlp.norm");
    list.Norm(at + norms.after_mlp, layer, "mlp.post_norm");
  }
  list.Whole("model.norm.weight", table.Find("head.norm.gain"));
  list.Whole("model.norm.bias", table.Find("head.norm.bias"));
}

}  // namespace llama_like

namespace {

void ListLlamaLike(const ParameterTable& table, TensorList& list) { llama_like::ListTensors(table, false, list, {}); }

void ListPhi3(const ParameterTable& table, TensorList& list) { llama_like::ListTensors(table, true, list, {}); }

}  // namespace

std::vector<HuggingFaceFamily> HuggingFaceLlamaLike() {
  return {{"llama", "llama", ParseLlama, FormatLlama, ListLlamaLike},
          {"mistral", "mistral", ParseMistral, FormatMistral, ListLlamaLike},
          {"qwen2", "qwen2", ParseQwen2, FormatQwen2, ListLlamaLike},
          {"qwen3", "qwen3", ParseQwen3, FormatQwen3, ListLlamaLike},
          {"gemma2", "gemma2", ParseGemma2, FormatGemma2, ListLlamaLike},
          {"gemma3_text", "gemma3", ParseGemma3, FormatGemma3, ListLlamaLike},
          {"olmo2", "olmo2", ParseOlmo2, FormatOlmo2, ListLlamaLike},
          {"phi3", "phi3", ParsePhi3, FormatPhi3, ListPhi3},
          {"nemotron", "nemotron", ParseNemotron, FormatNemotron, ListLlamaLike}};
}

}  // namespace trireme
