#include "checkpoint/format/model_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/format/bounded_json.h"

namespace trireme {

nlohmann::json ModelJson(const ModelConfig& model) {
  return {{"family", model.family},
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
          {"initial_deviation", model.initial_deviation}};
}

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
  try {
    return Completed(model, true);
  } catch (const Error& error) {
    Fail("'{}': {}", origin, error.what());
  }
}

}  // namespace trireme
