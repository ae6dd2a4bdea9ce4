#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/hugging_face/families.h"

namespace trireme {
namespace {

using nlohmann::json;

ModelConfig ParseMpt(const ConfigKeys& keys) {
  ModelConfig model{.family = "mpt"};
  model.layers = keys.Count("n_layers", std::int64_t{24});
  model.hidden = keys.Count("d_model", std::int64_t{2048});
  model.heads = keys.Count("n_heads", std::int64_t{16});
  model.ffn = 4 * model.hidden;  // whatever expansion_ratio says: so does transformers
  model.vocabulary = keys.Count("vocab_size", std::int64_t{50368});
  model.sequence = keys.Count("max_seq_len", std::int64_t{2048});
  model.norm_epsilon = keys.Number("layer_norm_epsilon", 1e-5);
  model.initial_deviation = keys.Number("initializer_range", 0.02);
  model.tie_embeddings = keys.Flag("tie_word_embeddings", true);
  keys.RequireFlag("no_bias", true);
  keys.RequireText("norm_type", {"low_precision_layernorm"});
  keys.RequireAbsent("logit_scale");
  if (keys.Has("attn_config")) {
    const ConfigKeys attention = keys.Inner("attn_config");
    attention.RequireFlag("alibi", true);
    attention.RequireFlag("qk_ln", false);
    attention.RequireFlag("prefix_lm", false);
    attention.RequireText("attn_type", {"multihead_attention"});
    attention.RequireAbsent("clip_qkv");
    model.attention_multiplier = attention.Number("softmax_scale", 0);
    Require(attention.Number("alibi_bias_max", 8) == 8, "'{}': 'alibi_bias_max' = {}; this program computes 8",
            keys.origin(), attention.Number("alibi_bias_max", 8));
  }
  return model;
}

json FormatMpt(const ModelConfig& model) {
  Require(model.ffn == 4 * model.hidden,
          "model.ffn = {} cannot be exported: MPT's is always four times the hidden size, {}", model.ffn,
          4 * model.hidden);
  return {{"architectures", {"MptForCausalLM"}},
          {"n_layers", model.layers},
          {"d_model", model.hidden},
          {"n_heads", model.heads},
          {"expansion_ratio", 4},
          {"vocab_size", model.vocabulary},
          {"max_seq_len", model.sequence},
          {"layer_norm_epsilon", model.norm_epsilon},
          {"initializer_range", model.initial_deviation},
          {"no_bias", true},
          {"norm_type", "low_precision_layernorm"},
          {"attn_config",
           {{"alibi", true},
            {"alibi_bias_max", 8},
            {"attn_type", "multihead_attention"},
            {"softmax_scale", model.attention_multiplier > 0 ? json(model.attention_multiplier) : json(nullptr)}}},
          {"emb_pdrop", model.dropout},
          {"resid_pdrop", model.dropout}};
}

void ListMpt(const ParameterTable& table, TensorList& list) {
  const std::string prefix = "transformer.";
  list.Whole(prefix + "wte.weight", table.token_table());
  for (std::int64_t layer = 0; layer < table.config().layers; ++layer) {
    const std::string at = fmt::format("{}blocks.{}.", prefix, layer);
    list.Norm(at + "norm_1", layer, "attention.norm");
    list.Linear(at + "attn.Wqkv", layer, "attention.qkv");
    list.Linear(at + "attn.out_proj", layer, "attention.out");
    list.Norm(at + "norm_2", layer, "mlp.norm");
    list.Linear(at + "ffn.up_proj", layer, "mlp.in");
    list.Linear(at + "ffn.down_proj", layer, "mlp.out");
  }
  list.Whole(prefix + "norm_f.weight", table.Find("head.norm.gain"));
}

}  // namespace

HuggingFaceFamily HuggingFaceMpt() {
  return {.model_type = "mpt", .family = "mpt", .parse = ParseMpt, .format = FormatMpt, .list = ListMpt};
}

}  // namespace trireme
