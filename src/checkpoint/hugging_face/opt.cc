#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/hugging_face/choice_keys.h"
#include "checkpoint/hugging_face/families.h"

namespace trireme {
namespace {

using nlohmann::json;

ModelConfig ParseOpt(const ConfigKeys& keys) {
  ModelConfig model{.family = "opt"};
  model.layers = keys.Count("num_hidden_layers", std::int64_t{12});
  model.hidden = keys.Count("hidden_size", std::int64_t{768});
  model.heads = keys.Count("num_attention_heads", std::int64_t{12});
  model.ffn = keys.Count("ffn_dim", std::int64_t{3072});
  model.vocabulary = keys.Count("vocab_size", std::int64_t{50272});
  model.sequence = keys.Count("max_position_embeddings", std::int64_t{2048});
  model.initial_deviation = keys.Number("init_std", 0.02);
  model.tie_embeddings = keys.Flag("tie_word_embeddings", true);
  ParseActivation(keys, "activation_function", "relu", model);
  model.attention_bias = model.mlp_bias = ParseBias(keys, "enable_bias", true);
  keys.RequireFlag("do_layer_norm_before", true);
  keys.RequireFlag("_remove_final_layer_norm", false);
  keys.RequireFlag("layer_norm_elementwise_affine", true);
  const std::int64_t projected = keys.Count("word_embed_proj_dim", model.hidden);
  Require(projected == model.hidden, "'{}': 'word_embed_proj_dim' = {} is not the hidden size {}", keys.origin(),
          projected, model.hidden);
  return model;
}

json FormatOpt(const ModelConfig& model) {
  Require(model.norm_epsilon == 1e-5, "model.norm_epsilon = {} cannot be exported: OPT's is always 1e-5",
          model.norm_epsilon);
  return {{"architectures", {"OPTForCausalLM"}},
          {"num_hidden_layers", model.layers},
          {"hidden_size", model.hidden},
          {"word_embed_proj_dim", model.hidden},
          {"num_attention_heads", model.heads},
          {"ffn_dim", model.ffn},
          {"vocab_size", model.vocabulary},
          {"max_position_embeddings", model.sequence},
          {"init_std", model.initial_deviation},
          {"activation_function", FormatActivation(model)},
          {"do_layer_norm_before", true},
          {"enable_bias", model.linear_bias},
          {"layer_norm_elementwise_affine", true},
          {"attention_dropout", 0.0},
          {"dropout", model.dropout}};
}

void ListOpt(const ParameterTable& table, TensorList& list) {
  const std::string prefix = "model.decoder.";
  list.Whole(prefix + "embed_tokens.weight", table.token_table());
  list.Whole(prefix + "embed_positions.weight", table.Find("embedding.position"));
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    const std::string at = fmt::format("{}layers.{}.", prefix, layer);
    const std::string attention = at + "self_attn.";
    for (const char* kind : {"weight", "bias"}) {
      list.Segments({attention + "q_proj." + kind, attention + "k_proj." + kind, attention + "v_proj." + kind},
                    table.InBlock(layer, std::string("attention.qkv.") + kind));
    }
    list.Linear(attention + "out_proj", layer, "attention.out");
    list.Norm(at + "self_attn_layer_norm", layer, "attention.norm");
    list.Linear(at + "fc1", layer, "mlp.in");
    list.Linear(at + "fc2", layer, "mlp.out");
    list.Norm(at + "final_layer_norm", layer, "mlp.norm");
  }
  list.Whole(prefix + "final_layer_norm.weight", table.Find("head.norm.gain"));
  list.Whole(prefix + "final_layer_norm.bias", table.Find("head.norm.bias"));
}

}  // namespace

HuggingFaceFamily HuggingFaceOpt() {
  return {.model_type = "opt", .family = "opt", .parse = ParseOpt, .format = FormatOpt, .list = ListOpt};
}

}  // namespace trireme
