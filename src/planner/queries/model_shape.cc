#include "planner/queries/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

// Which of our families has the products and tensors of a model type.
struct KnownType {
  const char* type;
  const char* family;
};
constexpr KnownType kTypes[] = {
    {"gpt2", "gpt2"},         {"bloom", "bloom"},    {"llama", "llama"},       {"mistral", "mistral"},
    {"qwen2", "qwen2"},       {"qwen3", "qwen3"},    {"gemma2", "gemma2"},     {"gemma3_text", "gemma3"},
    {"phi3", "phi3"},         {"olmo2", "olmo2"},    {"nemotron", "nemotron"}, {"opt", "opt"},
    {"gpt_neox", "gpt_neox"}, {"mpt", "mpt"},        {"starcoder", "gpt2"},    {"smollm3", "smollm3"},
    {"olmo3", "olmo3"},       {"granite", "granite"}};
// With experts.
constexpr KnownType kExpertTypes[] = {{"mixtral", "mistral"},   {"olmoe", "olmoe"},      {"qwen2_moe", "qwen2"},
                                      {"qwen3_moe", "qwen3"},   {"granitemoe", "llama"}, {"deepseek_v2", "llama"},
                                      {"deepseek_v3", "llama"}, {"kimi_k2", "llama"},    {"gpt_oss", "qwen2"}};

std::vector<std::string> TypesWithExperts() {
  std::vector<std::string> types;
  for (const KnownType& one : kExpertTypes) {
    types.emplace_back(one.type);
  }
  return types;
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& origin) : origin_(origin) {
    json_ = ParseJsonOrDiscard(text);
    Require(json_.is_object(), "{} is no JSON object: a model's config.json is wanted", origin);
  }

  std::string Type() const {
    const auto found = json_.find("model_type");
    Require(found != json_.end() && found->is_string(), "{} lacks \"model_type\", a text", origin_);
    return found->get<std::string>();
  }

  // The first of `names` that is there; `fallback` below 0: one must be.
  std::int64_t Count(const std::vector<const char*>& names, std::int64_t fallback) const {
    for (const char* name : names) {
      const auto found = json_.find(name);
      if (found == json_.end() || found->is_null()) {
        continue;
      }
      Require(found->is_number_integer() && found->get<double>() >= 1 && found->get<double>() <= 1e9,
              "{}: \"{}\" must be a whole number from 1 to 1e9", origin_, name);
      return found->get<std::int64_t>();
    }
    Require(fallback >= 0, "{} lacks \"{}\"", origin_, fmt::join(names, "\" or \""));
    return fallback;
  }

  // A number that may be 0.
  std::int64_t CountOrNone(const char* name) const {
    const auto found = json_.find(name);
    const bool none = found == json_.end() || found->is_null() || (found->is_number() && found->get<double>() == 0);
    return none ? 0 : Count({name}, 0);
  }

  bool Flag(const char* name, bool fallback) const {
    const auto found = json_.find(name);
    Require(found == json_.end() || found->is_boolean(), "{}: \"{}\" must be true or false", origin_, name);
    return found == json_.end() ? fallback : found->get<bool>();
  }

  void RefuseExperts() const {
    for (const char* name : {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}) {
      const auto found = json_.find(name);
      Require(found == json_.end() || found->is_null() || (found->is_number() && found->get<double>() <= 1),
              "{}: \"{}\": experts of model_type '{}' cannot be planned, but those of {}", origin_, name, Type(),
              fmt::join(TypesWithExperts(), ", "));
    }
  }

 private:
  const std::string& origin_;
  Json json_;
};

std::string FamilyOf(const std::string& type, const std::string& origin) {
  std::string known;
  for (const std::span<const KnownType> types : {std::span<const KnownType>(kTypes), {kExpertTypes}}) {
    for (const KnownType& one : types) {
      if (type == one.type) {
        return one.family;
      }
      known += (known.empty() ? "" : ", ") + std::string(one.type);
    }
  }
  Fail("{}: model_type '{}' is unknown; known: {}. Or give the shape: --layers, --hidden, --heads", origin, type,
       known);
}

void ReadExperts(const Reader& file, ModelConfig& model) {
  model.experts = {.count = file.Count({"num_local_experts", "num_experts", "n_routed_experts"}, -1),
                   .chosen = file.Count({"num_experts_per_tok"}, -1),
                   .ffn = file.Count({"moe_intermediate_size"}, 0),
                   .shared_ffn = file.CountOrNone("shared_expert_intermediate_size"),
                   .dense_layers = file.CountOrNone("first_k_dense_replace"),
                   .period = file.Count({"decoder_sparse_step", "moe_layer_freq"}, 1)};
  model.experts.shared_gate = model.experts.shared_ffn > 0;
  model.experts.shared_ffn += file.CountOrNone("n_shared_experts") * model.experts.ffn;
  model.latent = {.query_rank = file.CountOrNone("q_lora_rank"),
                  .kv_rank = file.CountOrNone("kv_lora_rank"),
                  .rope = file.Count({"qk_rope_head_dim"}, LatentAttention{}.rope)};
  if (model.latent.any()) {
    model.kv_heads = model.heads;
    model.head_dim = file.Count({"v_head_dim"}, -1);
  }
  model.attention_sinks = file.Type() == "gpt_oss";
}

}  // namespace

ModelConfig ParseModelShape(const std::string& json, const std::string& origin) {
  const Reader file(json, origin);
  const std::string type = file.Type();
  ModelConfig model;
  model.family = FamilyOf(type, origin);
  const std::vector<std::string> with_experts = TypesWithExperts();
  const bool experts = std::find(with_experts.begin(), with_experts.end(), type) != with_experts.end();
  if (!experts) {
    file.RefuseExperts();
  }
  model.layers = file.Count({"num_hidden_layers", "n_layer", "n_layers"}, -1);
  model.hidden = file.Count({"hidden_size", "n_embd", "n_embed", "d_model"}, -1);
  model.heads = file.Count({"num_attention_heads", "n_head", "n_heads"}, -1);
  model.kv_heads = file.Count({"num_key_value_heads"}, 0);
  model.ffn = file.Count({"intermediate_size", "ffn_dim", "n_inner"}, 0);
  model.vocabulary = file.Count({"vocab_size"}, -1);
  // Models made for long texts are mostly trained on shorter ones: --sequence says otherwise.
  constexpr std::int64_t kMostSequence = 8192;
  model.sequence =
      std::min(file.Count({"max_position_embeddings", "n_positions", "seq_length", "n_ctx", "max_seq_len"}, 2048),
               kMostSequence);
  model.head_dim = file.Count({"head_dim"}, 0);
  if (file.Flag("use_sliding_window", true)) {
    model.window = file.Count({"sliding_window"}, 0);
  }
  if (experts) {
    ReadExperts(file, model);
  }
  model.tie_embeddings = file.Flag("tie_word_embeddings", Completed(model).tie_embeddings);
  return Completed(model, true);
}

}  // namespace trireme
