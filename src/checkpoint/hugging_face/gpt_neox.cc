#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/hugging_face/choice_keys.h"
#include "checkpoint/hugging_face/families.h"
#include "checkpoint/hugging_face/rotary_keys.h"

namespace trireme {
namespace {

using nlohmann::json;

ModelConfig ParseGptNeoX(const ConfigKeys& keys) {
  ModelConfig model{.family = "gpt_neox"};
  model.layers = keys.Count("num_hidden_layers", std::int64_t{44});
  model.hidden = keys.Count("hidden_size", std::int64_t{6144});
  model.heads = keys.Count("num_attention_heads", std::int64_t{64});
  model.ffn = keys.Count("intermediate_size", std::int64_t{24576});
  model.vocabulary = keys.Count("vocab_size", std::int64_t{50432});
  model.sequence = keys.Count("max_position_embeddings", std::int64_t{2048});
  model.norm_epsilon = keys.Number("layer_norm_eps", 1e-5);
  model.initial_deviation = keys.Number("initializer_range", 0.02);
  model.tie_embeddings = keys.Flag("tie_word_embeddings", false);
  model.serial_branches = !keys.Flag("use_parallel_residual", true);
  ParseRotary(keys, model, keys.Number("rotary_emb_base", 10000));
  ParseActivation(keys, "hidden_act", "gelu", model);
  model.attention_bias = ParseBias(keys, "attention_bias", true);
  return model;
}

json FormatGptNeoX(const ModelConfig& model) {
  json root = {{"architectures", {"GPTNeoXForCausalLM"}},
               {"num_hidden_layers", model.layers},
               {"hidden_size", model.hidden},
               {"num_attention_heads", model.heads},
               {"intermediate_size", model.ffn},
               {"vocab_size", model.vocabulary},
               {"max_position_embeddings", model.sequence},
               {"layer_norm_eps", model.norm_epsilon},
               {"initializer_range", model.initial_deviation},
               {"hidden_act", FormatActivation(model)},
               {"attention_bias", model.out_bias},
               {"use_parallel_residual", !model.serial_branches},
               {"rotary_pct", model.rotary_fraction},
               {"rotary_emb_base", model.rope_theta},
               {"attention_dropout", 0.0},
               {"hidden_dropout", model.dropout}};
  FormatRotary(model, root);
  return root;
}

void ListGptNeoX(const ParameterTable& table, TensorList& list) {
  Require(table.config().kv_heads == table.config().heads, "model.kv_heads = {}: GPT-NeoX has as many as heads, {}",
          table.config().kv_heads, table.config().heads);
  const std::string prefix = "gpt_neox.";
  list.Whole(prefix + "embed_in.weight", table.token_table());
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    const std::string at = fmt::format("{}layers.{}.", prefix, layer);
    list.Norm(at + "input_layernorm", layer, "attention.norm");
    list.Norm(at + "post_attention_layernorm", layer, "mlp.norm");
    list.Linear(at + "attention.query_key_value", layer, "attention.qkv", TensorOrder::kInterleaved);
    list.Linear(at + "attention.dense", layer, "attention.out");
    list.Linear(at + "mlp.dense_h_to_4h", layer, "mlp.in");
    list.Linear(at + "mlp.dense_4h_to_h", layer, "mlp.out");
  }
  list.Whole(prefix + "final_layer_norm.weight", table.Find("head.norm.gain"));
  list.Whole(prefix + "final_layer_norm.bias", table.Find("head.norm.bias"));
}

}  // namespace

HuggingFaceFamily HuggingFaceGptNeoX() {
  return {.model_type = "gpt_neox",
          .family = "gpt_neox",
          .parse = ParseGptNeoX,
          .format = FormatGptNeoX,
          .list = ListGptNeoX,
          .output = "embed_out.weight"};
}

}  // namespace trireme
