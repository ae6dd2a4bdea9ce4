#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/format/bounded_json.h"
#include "checkpoint/hugging_face/hugging_face.h"
#include "data/files/json_file.h"

namespace trireme {
namespace {

using nlohmann::json;

// Reads keys that may be missing or null, as the library that writes these files treats them.
class Keys {
 public:
  Keys(const json& root, const std::string& origin) : root_(root), origin_(origin) {}

  bool Has(const char* key) const { return root_.contains(key) && !root_[key].is_null(); }
  std::int64_t Count(const char* key, std::int64_t otherwise) const {
    return Has(key) ? CountOf(root_, key, origin_) : otherwise;
  }
  // Under either name; one must be there.
  std::int64_t Count(const char* key, const char* other) const {
    return CountOf(root_, Has(key) || !Has(other) ? key : other, origin_);
  }
  double Number(const char* key, double otherwise) const {
    return Has(key) ? NumberOf(root_, key, origin_) : otherwise;
  }
  bool Flag(const char* key, bool otherwise) const { return Has(key) ? FlagOf(root_, key, origin_) : otherwise; }
  std::string Text(const char* key, const char* otherwise) const {
    return Has(key) ? TextOf(root_, key, origin_) : otherwise;
  }
  Keys Inner(const char* key) const { return {ObjectOf(root_, key, origin_), origin_}; }

  void RequireFlag(const char* key, bool wanted) const {
    Require(Flag(key, wanted) == wanted, "'{}': '{}' = {} is not a model that this program computes", origin_, key,
            !wanted);
  }
  void RequireText(const char* key, const char* wanted, const char* also) const {
    const std::string value = Text(key, wanted);
    Require(value == wanted || value == also, "'{}': '{}' = '{}'; this program computes '{}'", origin_, key, value,
            wanted);
  }
  const std::string& origin() const { return origin_; }

 private:
  const json& root_;
  const std::string& origin_;
};

ModelConfig ParseGpt2(const Keys& keys) {
  ModelConfig model{.family = "gpt2"};
  model.layers = keys.Count("n_layer", "num_hidden_layers");
  model.hidden = keys.Count("n_embd", "hidden_size");
  model.heads = keys.Count("n_head", "num_attention_heads");
  model.ffn = keys.Count("n_inner", std::int64_t{0});
  model.vocabulary = keys.Count("vocab_size", std::int64_t{50257});
  model.sequence = keys.Count("n_positions", std::int64_t{1024});
  model.norm_epsilon = keys.Number("layer_norm_epsilon", 1e-5);
  model.initial_deviation = keys.Number("initializer_range", 0.02);
  model.tie_embeddings = keys.Flag("tie_word_embeddings", true);
  keys.RequireText("activation_function", "gelu_new", "gelu_pytorch_tanh");
  keys.RequireFlag("scale_attn_weights", true);
  keys.RequireFlag("scale_attn_by_inverse_layer_idx", false);
  keys.RequireFlag("add_cross_attention", false);
  return model;
}

ModelConfig ParseBloom(const Keys& keys) {
  ModelConfig model{.family = "bloom"};
  model.layers = keys.Count("n_layer", "num_hidden_layers");
  model.hidden = keys.Count("hidden_size", "n_embed");
  model.heads = keys.Count("n_head", "num_attention_heads");
  model.vocabulary = keys.Count("vocab_size", std::int64_t{250880});
  model.sequence = keys.Count("seq_length", std::int64_t{2048});
  model.norm_epsilon = keys.Number("layer_norm_epsilon", 1e-5);
  model.initial_deviation = keys.Number("initializer_range", 0.02);
  model.tie_embeddings = keys.Flag("tie_word_embeddings", true);
  keys.RequireFlag("apply_residual_connection_post_layernorm", false);
  return model;
}

double RotaryBase(const Keys& keys) {
  const char* key = keys.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!keys.Has(key)) {
    return keys.Number("rope_theta", 10000);
  }
  const Keys inner = keys.Inner(key);
  const std::string type = inner.Text("rope_type", inner.Text("type", "default").c_str());
  Require(type == "default", "'{}': '{}' of type '{}': only plain rotary positions are computed", keys.origin(), key,
          type);
  return inner.Number("rope_theta", keys.Number("rope_theta", 10000));
}

ModelConfig ParseLlama(const Keys& keys) {
  ModelConfig model{.family = "llama"};
  model.layers = keys.Count("num_hidden_layers", "n_layer");
  model.hidden = keys.Count("hidden_size", "n_embd");
  model.heads = keys.Count("num_attention_heads", "n_head");
  model.kv_heads = keys.Count("num_key_value_heads", model.heads);
  model.ffn = keys.Count("intermediate_size", "n_inner");
  model.vocabulary = keys.Count("vocab_size", std::int64_t{32000});
  model.sequence = keys.Count("max_position_embeddings", std::int64_t{2048});
  model.norm_epsilon = keys.Number("rms_norm_eps", 1e-6);
  model.initial_deviation = keys.Number("initializer_range", 0.02);
  model.tie_embeddings = keys.Flag("tie_word_embeddings", false);
  model.rope_theta = RotaryBase(keys);
  keys.RequireText("hidden_act", "silu", "swish");
  keys.RequireFlag("attention_bias", false);
  keys.RequireFlag("mlp_bias", false);
  const std::int64_t head = keys.Count("head_dim", model.heads > 0 ? model.hidden / model.heads : 0);
  Require(head * model.heads == model.hidden, "'{}': 'head_dim' = {} x {} heads is not the hidden size {}",
          keys.origin(), head, model.heads, model.hidden);
  return model;
}

json Gpt2Json(const ModelConfig& model) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"n_layer", model.layers},
          {"n_embd", model.hidden},
          {"n_head", model.heads},
          {"n_inner", model.ffn},
          {"n_positions", model.sequence},
          {"n_ctx", model.sequence},
          {"vocab_size", model.vocabulary},
          {"layer_norm_epsilon", model.norm_epsilon},
          {"initializer_range", model.initial_deviation},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", model.dropout},
          {"resid_pdrop", model.dropout}};
}

json BloomJson(const ModelConfig& model) {
  Require(model.ffn == 4 * model.hidden,
          "model.ffn = {} cannot be exported: BLOOM's is always four times the hidden size, {}", model.ffn,
          4 * model.hidden);
  return {{"architectures", {"BloomForCausalLM"}},
          {"model_type", "bloom"},
          {"n_layer", model.layers},
          {"hidden_size", model.hidden},
          {"n_head", model.heads},
          {"vocab_size", model.vocabulary},
          {"seq_length", model.sequence},
          {"layer_norm_epsilon", model.norm_epsilon},
          {"initializer_range", model.initial_deviation},
          {"apply_residual_connection_post_layernorm", false},
          {"attention_dropout", 0.0},
          {"hidden_dropout", model.dropout}};
}

json LlamaJson(const ModelConfig& model) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"num_hidden_layers", model.layers},
          {"hidden_size", model.hidden},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", model.kv_heads},
          {"head_dim", model.head_size()},
          {"intermediate_size", model.ffn},
          {"max_position_embeddings", model.sequence},
          {"vocab_size", model.vocabulary},
          {"rms_norm_eps", model.norm_epsilon},
          {"rope_theta", model.rope_theta},
          {"initializer_range", model.initial_deviation},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"attention_dropout", 0.0}};
}

}  // namespace

ModelConfig ParseHuggingFaceConfig(const std::string& text, const std::string& origin) {
  const json root = ParseBoundedJson(text, origin, {.depth = 64, .values = 100'000});
  const std::string type = TextOf(root, "model_type", origin);
  const Keys keys(root, origin);
  ModelConfig model;
  if (type == "gpt2") {
    model = ParseGpt2(keys);
  } else if (type == "bloom") {
    model = ParseBloom(keys);
  } else if (type == "llama") {
    model = ParseLlama(keys);
  } else {
    Fail("'{}': model_type '{}' is not one of gpt2, bloom, llama", origin, type);
  }
  try {
    return Completed(model, true);
  } catch (const Error& error) {
    Fail("'{}': {}", origin, error.what());
  }
}

ModelConfig ReadHuggingFaceConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  return ParseHuggingFaceConfig(ReadBoundedFile(path, kLargestHuggingFaceConfig), path);
}

std::string FormatHuggingFaceConfig(const ModelConfig& model, const std::string& dtype) {
  json root = model.family == "gpt2" ? Gpt2Json(model) : model.family == "bloom" ? BloomJson(model) : LlamaJson(model);
  root["tie_word_embeddings"] = model.tie_embeddings;
  root["torch_dtype"] = dtype == "bf16" ? "bfloat16" : "float32";
  root["use_cache"] = true;
  return root.dump(2) + "\n";
}

}  // namespace trireme
