// The families with experts: Mixtral is Mistral with them, Qwen2-MoE and Qwen3-MoE are Qwen's blocks, OLMoE has norms
// of its own.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/hugging_face/families.h"
#include "checkpoint/hugging_face/llama_like.h"
#include "checkpoint/hugging_face/rotary_keys.h"

namespace trireme {
namespace {

using nlohmann::json;

// Layers without experts, as Qwen's configurations name them.
void ParseDenseLayers(const ConfigKeys& keys, ModelConfig& model) {
  model.experts.period = keys.Count("decoder_sparse_step", std::int64_t{1});
  if (!keys.Has("mlp_only_layers")) {
    return;
  }
  std::vector<double> dense = keys.Numbers("mlp_only_layers");
  std::sort(dense.begin(), dense.end());
  for (std::size_t i = 0; i < dense.size(); ++i) {
    Require(dense[i] == static_cast<double>(i),
            "'{}': 'mlp_only_layers' names layer {}: layers without experts are computed where they are the first ones",
            keys.origin(), dense[i]);
  }
  model.experts.dense_layers = static_cast<std::int64_t>(dense.size());
}

ModelConfig ParseMixtral(const ConfigKeys& keys) {
  ModelConfig model = llama_like::ParseShared(keys, "mistral", {.norm_epsilon = 1e-5, .rope_theta = 1e6});
  ParseWindows(keys, model);
  model.experts = {.count = keys.Count("num_local_experts", std::int64_t{8}),
                   .chosen = keys.Count("num_experts_per_tok", std::int64_t{2}),
                   .ffn = model.ffn};
  return model;
}

ModelConfig ParseOlmoe(const ConfigKeys& keys) {
  ModelConfig model = llama_like::ParseShared(keys, "olmoe", {.norm_epsilon = 1e-5});
  keys.RequireFlag("attention_bias", false);
  keys.RequireAbsent("clip_qkv");
  model.experts = {.count = keys.Count("num_experts", std::int64_t{64}),
                   .chosen = keys.Count("num_experts_per_tok", std::int64_t{8}),
                   .ffn = model.ffn,
                   .renormalize = keys.Flag("norm_topk_prob", false)};
  return model;
}

ModelConfig ParseQwen3Moe(const ConfigKeys& keys) {
  ModelConfig model = llama_like::ParseShared(keys, "qwen3", {});
  keys.RequireFlag("attention_bias", false);
  llama_like::ParseQwenWindows(keys, model);
  model.experts = {.count = keys.Count("num_experts", std::int64_t{128}),
                   .chosen = keys.Count("num_experts_per_tok", std::int64_t{8}),
                   .ffn = keys.Count("moe_intermediate_size", std::int64_t{768}),
                   .renormalize = keys.Flag("norm_topk_prob", false)};
  ParseDenseLayers(keys, model);
  return model;
}

ModelConfig ParseQwen2Moe(const ConfigKeys& keys) {
  ModelConfig model = llama_like::ParseShared(keys, "qwen2", {});
  llama_like::ParseQwenWindows(keys, model);
  model.experts = {.count = keys.Count("num_experts", std::int64_t{60}),
                   .chosen = keys.Count("num_experts_per_tok", std::int64_t{4}),
                   .ffn = keys.Count("moe_intermediate_size", std::int64_t{1408}),
                   .shared_ffn = keys.Count("shared_expert_intermediate_size", std::int64_t{5632}),
                   .shared_gate = true,
                   .renormalize = keys.Flag("norm_topk_prob", false)};
  ParseDenseLayers(keys, model);
  return model;
}

ModelConfig ParseGraniteMoe(const ConfigKeys& keys) {
  ModelConfig model = llama_like::ParseGraniteShared(keys);
  keys.RequireFlag("attention_bias", false);
  model.experts = {.count = keys.Count("num_local_experts", std::int64_t{8}),
                   .chosen = keys.Count("num_experts_per_tok", std::int64_t{2}),
                   .ffn = model.ffn};
  return model;
}

// An Error for what no file of the type can say.
void RequireRouter(const ModelConfig& model, const char* type, bool shared, bool mixed) {
  const ExpertsConfig& experts = model.experts;
  Require(experts.score == RouterScore::kSoftmax && experts.scale == 1,
          "model.router = '{}' with model.router_scale = {} cannot be exported: {} has a softmax of scale 1",
          Name(experts.score), experts.scale, type);
  Require(shared == (experts.shared_ffn > 0) && shared == experts.shared_gate,
          "model.shared_ffn = {} with model.shared_gate = {} cannot be exported: {} has {}", experts.shared_ffn,
          experts.shared_gate, type, shared ? "a shared expert with a gate" : "no shared expert");
  Require(mixed || model.SparseLayers() == model.layers,
          "model.dense_layers = {} with model.expert_period = {} cannot be exported: all layers of {} have experts",
          experts.dense_layers, experts.period, type);
}

json FormatMixtral(const ModelConfig& model) {
  RequireRouter(model, "mixtral", false, false);
  Require(model.experts.renormalize,
          "model.router_renormalize = false cannot be exported: the weights of Mixtral's experts add up to 1");
  json root = llama_like::FormatShared(model, "MixtralForCausalLM");
  root["intermediate_size"] = model.experts.ffn;
  root["num_local_experts"] = model.experts.count;
  root["num_experts_per_tok"] = model.experts.chosen;
  root["sliding_window"] = llama_like::WindowJson(model);
  return root;
}

json FormatGraniteMoe(const ModelConfig& model) {
  RequireRouter(model, "granitemoe", false, false);
  Require(model.experts.renormalize,
          "model.router_renormalize = false cannot be exported: the weights of Granite's experts add up to 1");
  Require(model.head_size() * model.heads == model.hidden,
          "model.head_dim = {} cannot be exported: a head of Granite is hidden / heads", model.head_dim);
  json root = llama_like::FormatGraniteShared(model, "GraniteMoeForCausalLM");
  root.erase("head_dim");
  root.erase("mlp_bias");
  root["intermediate_size"] = model.experts.ffn;
  root["num_local_experts"] = model.experts.count;
  root["num_experts_per_tok"] = model.experts.chosen;
  return root;
}

void FormatExperts(const ModelConfig& model, json& root) {
  root["num_experts"] = model.experts.count;
  root["num_experts_per_tok"] = model.experts.chosen;
  root["norm_topk_prob"] = model.experts.renormalize;
}

json FormatOlmoe(const ModelConfig& model) {
  RequireRouter(model, "olmoe", false, false);
  Require(model.head_size() * model.heads == model.hidden,
          "model.head_dim = {} cannot be exported: a head of OLMoE is hidden / heads", model.head_dim);
  json root = llama_like::FormatShared(model, "OlmoeForCausalLM");
  root.erase("head_dim");
  root["intermediate_size"] = model.experts.ffn;
  root["clip_qkv"] = nullptr;
  FormatExperts(model, root);
  return root;
}

void FormatQwenExperts(const ModelConfig& model, json& root) {
  FormatExperts(model, root);
  root["moe_intermediate_size"] = model.experts.ffn;
  root["decoder_sparse_step"] = model.experts.period;
  json dense = json::array();
  for (std::int64_t layer = 0; layer < model.experts.dense_layers; ++layer) {
    dense.push_back(layer);
  }
  root["mlp_only_layers"] = dense;
}

json FormatQwen3Moe(const ModelConfig& model) {
  RequireRouter(model, "qwen3_moe", false, true);
  json root = llama_like::FormatQwen(model, "Qwen3MoeForCausalLM");
  FormatQwenExperts(model, root);
  return root;
}

json FormatQwen2Moe(const ModelConfig& model) {
  RequireRouter(model, "qwen2_moe", true, true);
  Require(model.head_size() * model.heads == model.hidden,
          "model.head_dim = {} cannot be exported: a head of Qwen2-MoE is hidden / heads", model.head_dim);
  json root = llama_like::FormatQwen(model, "Qwen2MoeForCausalLM");
  root.erase("head_dim");
  root.erase("attention_bias");
  FormatQwenExperts(model, root);
  root["shared_expert_intermediate_size"] = model.experts.shared_ffn;
  return root;
}

// The names of a family's router and of each expert's matrices.
struct ExpertNames {
  const char* part = "mlp.";
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
};

void ListExperts(const ParameterTable& table, const ExpertNames& names, TensorList& list) {
  const ExpertsConfig& experts = table.config().experts;
  llama_like::ListTensors(table, false, list, [&](std::int64_t layer, const std::string& at, TensorList& to) {
    // transformers holds experts in two tensors, under one name for all families, and may write them so.
    const std::string part = at + (to.fuses_experts() ? "mlp." : names.part);
    const int in = table.InBlock(layer, "experts.in.weight");
    const int out = table.InBlock(layer, "experts.out.weight");
    to.Whole(part + "gate.weight", table.InBlock(layer, "router.weight"));
    if (to.fuses_experts()) {
      to.Whole(part + "experts.gate_up_proj", in);
      to.Whole(part + "experts.down_proj", out);
    }
    for (std::int64_t e = 0; !to.fuses_experts() && e < experts.count; ++e) {
      const auto name = [&](const char* matrix) { return fmt::format("{}experts.{}.{}.weight", part, e, matrix); };
      to.Rows(name(names.gate), in, 2 * e * experts.ffn, experts.ffn);
      to.Rows(name(names.up), in, (2 * e + 1) * experts.ffn, experts.ffn);
      to.Rows(name(names.down), out, e * table.config().hidden, table.config().hidden);
    }
    to.Segments({part + "shared_expert.gate_proj.weight", part + "shared_expert.up_proj.weight"},
                table.InBlock(layer, "shared.in.weight"));
    to.Whole(part + "shared_expert.down_proj.weight", table.InBlock(layer, "shared.out.weight"));
    to.Whole(part + "shared_expert_gate.weight", table.InBlock(layer, "shared.gate"));
  });
}

void ListMixtral(const ParameterTable& table, TensorList& list) {
  ListExperts(table, {.part = "block_sparse_moe.", .gate = "w1", .up = "w3", .down = "w2"}, list);
}

// Both matrices of all experts in a tensor each.
void ListGraniteMoe(const ParameterTable& table, TensorList& list) {
  llama_like::ListTensors(table, false, list, [&](std::int64_t layer, const std::string& at, TensorList& to) {
    const std::string part = at + "block_sparse_moe.";
    to.Whole(part + "input_linear.weight", table.InBlock(layer, "experts.in.weight"));
    to.Whole(part + "output_linear.weight", table.InBlock(layer, "experts.out.weight"));
    to.Whole(part + "router.layer.weight", table.InBlock(layer, "router.weight"));
  });
}

void ListUsual(const ParameterTable& table, TensorList& list) { ListExperts(table, {}, list); }

}  // namespace

std::vector<HuggingFaceFamily> HuggingFaceExperts() {
  return {{"mixtral", "mistral", ParseMixtral, FormatMixtral, ListMixtral, "lm_head.weight", true},
          {"granitemoe", "granite", ParseGraniteMoe, FormatGraniteMoe, ListGraniteMoe, "lm_head.weight", true},
          {"olmoe", "olmoe", ParseOlmoe, FormatOlmoe, ListUsual, "lm_head.weight", true},
          {"qwen3_moe", "qwen3", ParseQwen3Moe, FormatQwen3Moe, ListUsual, "lm_head.weight", true},
          {"qwen2_moe", "qwen2", ParseQwen2Moe, FormatQwen2Moe, ListUsual, "lm_head.weight", true}};
}

}  // namespace trireme
