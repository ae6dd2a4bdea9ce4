#include "checkpoint/gguf/gguf_experts.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace trireme {
namespace {

// llama.cpp's architectures of experts have softmax scores of scale 1; whether weights are renormalised is fixed.
struct ExpertArchitecture {
  const char* family;
  GgufArchitecture architecture;
  bool renormalize;
  bool shared;          // an expert with a gate
  bool width_of_dense;  // the width of experts is that of a dense layer
};

void AddExperts(const ModelConfig& model, const std::string& at, GgufHeader& header) {
  const ExpertsConfig& experts = model.experts;
  header.Count(at + "expert_count", experts.count);
  header.Count(at + "expert_used_count", experts.chosen);
  header.Count(at + "expert_feed_forward_length", experts.ffn);
  if (experts.shared_ffn > 0) {
    header.Count(at + "expert_shared_feed_forward_length", experts.shared_ffn);
  }
}

constexpr std::array kExpertArchitectures = {
    ExpertArchitecture{
        "mistral",
        {.family = "mistral", .name = "llama", .paired_rotary = true, .free_heads = true, .add = AddExperts},
        true,
        false,
        true},
    ExpertArchitecture{
        "olmoe", {.family = "olmoe", .name = "olmoe", .own_output = true, .add = AddExperts}, false, false, true},
    ExpertArchitecture{"qwen2", {.family = "qwen2", .name = "qwen2moe", .add = AddExperts}, false, true, false},
    ExpertArchitecture{
        "qwen3", {.family = "qwen3", .name = "qwen3moe", .free_heads = true, .add = AddExperts}, true, false, false},
};

}  // namespace

const GgufArchitecture& GgufExpertArchitectureOf(const ModelConfig& model) {
  const ExpertsConfig& experts = model.experts;
  const auto* found = std::find_if(kExpertArchitectures.begin(), kExpertArchitectures.end(),
                                   [&](const auto& known) { return model.family == known.family; });
  Require(found != kExpertArchitectures.end(),
          "model.experts = {} in the family '{}': llama.cpp runs experts in mistral (Mixtral), olmoe, qwen2 and qwen3",
          experts.count, model.family);
  const char* const name = found->architecture.name;
  Require(experts.score == RouterScore::kSoftmax && experts.scale == 1,
          "model.router = '{}' with model.router_scale = {}: llama.cpp's architecture '{}' "
          "has a softmax of scale 1",
          Name(experts.score), experts.scale, name);
  Require(experts.renormalize == found->renormalize,
          "model.router_renormalize = {}: the weights of experts in llama.cpp's architecture '{}' {} up to 1",
          experts.renormalize, name, found->renormalize ? "add" : "are not made to add");
  Require(found->shared == (experts.shared_ffn > 0) && found->shared == experts.shared_gate,
          "model.shared_ffn = {} with model.shared_gate = {}: llama.cpp's architecture '{}' has {}", experts.shared_ffn,
          experts.shared_gate, name, found->shared ? "a shared expert with a gate" : "no shared expert");
  Require(model.SparseLayers() == model.layers,
          "model.dense_layers = {} with model.expert_period = {}: all layers of llama.cpp's architecture '{}' have "
          "experts",
          experts.dense_layers, experts.period, name);
  return found->architecture;
}

std::int64_t GgufWidth(const ModelConfig& model) {
  const auto* found = std::find_if(kExpertArchitectures.begin(), kExpertArchitectures.end(),
                                   [&](const auto& known) { return model.family == known.family; });
  const bool experts = model.experts.any() && found != kExpertArchitectures.end() && found->width_of_dense;
  return experts ? model.experts.ffn : model.ffn;
}

}  // namespace trireme
