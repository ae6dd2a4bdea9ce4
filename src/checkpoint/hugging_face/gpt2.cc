#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/hugging_face/choice_keys.h"
#include "checkpoint/hugging_face/families.h"

namespace trireme {
namespace {

using nlohmann::json;

ModelConfig ParseGpt2(const ConfigKeys& keys) {
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
  ParseActivation(keys, "activation_function", "gelu_new", model);
  model.attention_multiplier = keys.Flag("scale_attn_weights", true) ? 0 : 1;
  model.scores_by_layer = keys.Flag("scale_attn_by_inverse_layer_idx", false);
  keys.RequireFlag("add_cross_attention", false);
  return model;
}

json FormatGpt2(const ModelConfig& model) {
  Require(model.attention_multiplier == 0 || model.attention_multiplier == 1,
          "model.attention_multiplier = {} cannot be exported: GPT-2's is 1 or that of the head size",
          model.attention_multiplier);
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"activation_function", FormatActivation(model)},
          {"scale_attn_weights", model.attention_multiplier == 0},
          {"scale_attn_by_inverse_layer_idx", model.scores_by_layer},
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

void ListGpt2(const ParameterTable& table, TensorList& list) {
  const std::string prefix = "transformer.";
  list.Whole(prefix + "wte.weight", table.token_table());
  list.Whole(prefix + "wpe.weight", table.Find("embedding.position"));
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    const std::string at = fmt::format("{}h.{}.", prefix, layer);
    list.Norm(at + "ln_1", layer, "attention.norm");
    list.Linear(at + "attn.c_attn", layer, "attention.qkv", TensorOrder::kTransposed);
    list.Linear(at + "attn.c_proj", layer, "attention.out", TensorOrder::kTransposed);
    list.Norm(at + "ln_2", layer, "mlp.norm");
    list.Linear(at + "mlp.c_fc", layer, "mlp.in", TensorOrder::kTransposed);
    list.Linear(at + "mlp.c_proj", layer, "mlp.out", TensorOrder::kTransposed);
  }
  list.Whole(prefix + "ln_f.weight", table.Find("head.norm.gain"));
  list.Whole(prefix + "ln_f.bias", table.Find("head.norm.bias"));
}

}  // namespace

HuggingFaceFamily HuggingFaceGpt2() {
  return {.model_type = "gpt2", .family = "gpt2", .parse = ParseGpt2, .format = FormatGpt2, .list = ListGpt2};
}

}  // namespace trireme
