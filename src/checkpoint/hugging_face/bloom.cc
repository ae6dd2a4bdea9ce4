#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/hugging_face/families.h"

namespace trireme {
namespace {

using nlohmann::json;

ModelConfig ParseBloom(const ConfigKeys& keys) {
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

json FormatBloom(const ModelConfig& model) {
  Require(model.ffn == 4 * model.hidden,
          "model.ffn = {} cannot be exported: BLOOM's is always four times the hidden size, {}", model.ffn,
          4 * model.hidden);
  return {{"architectures", {"BloomForCausalLM"}},
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

void ListBloom(const ParameterTable& table, TensorList& list) {
  Require(table.config().kv_heads == table.config().heads, "model.kv_heads = {}: BLOOM has as many as heads, {}",
          table.config().kv_heads, table.config().heads);
  const std::string prefix = "transformer.";
  list.Whole(prefix + "word_embeddings.weight", table.token_table());
  list.Whole(prefix + "word_embeddings_layernorm.weight", table.Find("embedding.norm.gain"));
  list.Whole(prefix + "word_embeddings_layernorm.bias", table.Find("embedding.norm.bias"));
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    const std::string at = fmt::format("{}h.{}.", prefix, layer);
    list.Norm(at + "input_layernorm", layer, "attention.norm");
    list.Linear(at + "self_attention.query_key_value", layer, "attention.qkv", TensorOrder::kInterleaved);
    list.Linear(at + "self_attention.dense", layer, "attention.out");
    list.Norm(at + "post_attention_layernorm", layer, "mlp.norm");
    list.Linear(at + "mlp.dense_h_to_4h", layer, "mlp.in");
    list.Linear(at + "mlp.dense_4h_to_h", layer, "mlp.out");
  }
  list.Whole(prefix + "ln_f.weight", table.Find("head.norm.gain"));
  list.Whole(prefix + "ln_f.bias", table.Find("head.norm.bias"));
}

}  // namespace

HuggingFaceFamily HuggingFaceBloom() {
  return {.model_type = "bloom", .family = "bloom", .parse = ParseBloom, .format = FormatBloom, .list = ListBloom};
}

}  // namespace trireme
