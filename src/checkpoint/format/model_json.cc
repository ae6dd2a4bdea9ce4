#include "checkpoint/format/model_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/format/bounded_json.h"

namespace trireme {

nlohmann::json ModelJson(const ModelConfig& model) {
  nlohmann::json json = {{"family", model.family},
                         {"layers", model.layers},
                         {"hidden", model.hidden},
                         {"heads", model.heads},
                         {"kv_heads", model.kv_heads},
                         {"ffn", model.ffn},
                         {"vocabulary", model.vocabulary},
                         {"sequence", model.sequence},
                         {"tie_embeddings", model.tie_embeddings},
                         {"dropout", model.dropout},
                         {"norm_epsilon", model.norm_epsilon},
                         {"rope_theta", model.rope_theta},
                         {"initial_deviation", model.initial_deviation},
                         {"head_dim", model.head_dim},
                         {"local_rope_theta", model.local_rope_theta},
                         {"rotary_fraction", model.rotary_fraction},
                         {"rope_scaling", model.rope_scaling},
                         {"rope_factor", model.rope_factor},
                         {"rope_low", model.rope_low},
                         {"rope_high", model.rope_high},
                         {"rope_original", model.rope_original},
                         {"window", model.window},
                         {"window_period", model.window_period},
                         {"attention_cap", model.attention_cap},
                         {"logit_cap", model.logit_cap},
                         {"query_scalar", model.query_scalar},
                         {"serial_branches", model.serial_branches},
                         {"attention_dropout", model.attention_dropout},
                         {"norm_embedding", model.norm_embedding}};
  if (model.rope_scaling == "longrope") {
    json["rope_short_factors"] = model.rope_short_factors;
    json["rope_long_factors"] = model.rope_long_factors;
  }
  if (model.adapter.any()) {
    json["lora"] = {{"rank", model.adapter.rank}, {"alpha", model.adapter.alpha}, {"targets", model.adapter.targets}};
  }
  return json;
}

namespace {

// Fields that manifests of earlier versions lack.
void ParseLaterFields(const nlohmann::json& value, const std::string& origin, ModelConfig& model) {
  const auto count = [&](const char* key, std::int64_t& field) {
    field = value.contains(key) ? CountOf(value, key, origin) : field;
  };
  const auto number = [&](const char* key, double& field) {
    field = value.contains(key) ? NumberOf(value, key, origin) : field;
  };
  count("head_dim", model.head_dim);
  number("local_rope_theta", model.local_rope_theta);
  number("rotary_fraction", model.rotary_fraction);
  model.rope_scaling = value.contains("rope_scaling") ? TextOf(value, "rope_scaling", origin) : model.rope_scaling;
  number("rope_factor", model.rope_factor);
  number("rope_low", model.rope_low);
  number("rope_high", model.rope_high);
  count("rope_original", model.rope_original);
  if (value.contains("rope_short_factors")) {
    model.rope_short_factors = TextOf(value, "rope_short_factors", origin);
    model.rope_long_factors = TextOf(value, "rope_long_factors", origin);
  }
  count("window", model.window);
  count("window_period", model.window_period);
  number("attention_cap", model.attention_cap);
  number("logit_cap", model.logit_cap);
  number("query_scalar", model.query_scalar);
  model.serial_branches =
      value.contains("serial_branches") ? FlagOf(value, "serial_branches", origin) : model.serial_branches;
  number("attention_dropout", model.attention_dropout);
  model.norm_embedding =
      value.contains("norm_embedding") ? TextOf(value, "norm_embedding", origin) : model.norm_embedding;
  if (value.contains("lora")) {
    const nlohmann::json& adapter = value["lora"];
    Require(adapter.is_object(), "'{}': 'lora' of the model is no object", origin);
    model.adapter = {.rank = CountOf(adapter, "rank", origin),
                     .alpha = NumberOf(adapter, "alpha", origin),
                     .targets = TextOf(adapter, "targets", origin)};
  }
}

}  // namespace

ModelConfig ParseModel(const nlohmann::json& value, const std::string& origin) {
  ModelConfig model;
  model.family = TextOf(value, "family", origin);
  model.layers = CountOf(value, "layers", origin);
  model.hidden = CountOf(value, "hidden", origin);
  model.heads = CountOf(value, "heads", origin);
  model.kv_heads = CountOf(value, "kv_heads", origin);
  model.ffn = CountOf(value, "ffn", origin);
  model.vocabulary = CountOf(value, "vocabulary", origin);
  model.sequence = CountOf(value, "sequence", origin);
  model.tie_embeddings = FlagOf(value, "tie_embeddings", origin);
  model.dropout = NumberOf(value, "dropout", origin);
  model.norm_epsilon = NumberOf(value, "norm_epsilon", origin);
  model.rope_theta = NumberOf(value, "rope_theta", origin);
  model.initial_deviation = NumberOf(value, "initial_deviation", origin);
  ParseLaterFields(value, origin, model);
  try {
    return Completed(model, true);
  } catch (const Error& error) {
    Fail("'{}': {}", origin, error.what());
  }
}

}  // namespace trireme
