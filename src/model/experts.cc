#include "model/experts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/model_config.h"

namespace trireme {
namespace {

constexpr std::int64_t kMostExperts = 4096;
constexpr std::int64_t kMostWidth = 1 << 22;

void RequireExpertRange(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
  Require(value >= low && value <= high, "model.{} = {} must be between {} and {}; the nearest that works is {}", key,
          value, low, high, std::clamp(value, low, high));
}

// Keys that mean nothing in a dense model are mistakes there.
void RequireNoExpertKeys(const ExpertsConfig& experts) {
  for (const auto& [key, given] :
       {std::pair{"experts_per_token", experts.chosen > 0}, std::pair{"expert_ffn", experts.ffn > 0},
        std::pair{"shared_ffn", experts.shared_ffn > 0}, std::pair{"balance_loss", experts.balance_loss > 0},
        std::pair{"router_z_loss", experts.z_loss > 0}}) {
    Require(!given, "model.{} is given, but model.experts is 0: set model.experts to the number of experts", key);
  }
}

}  // namespace

ExpertsConfig CompletedExperts(const ModelConfig& config) {
  ExpertsConfig experts = config.experts;
  if (experts.any() && experts.ffn == 0) {
    experts.ffn = config.ffn;
  }
  return experts;
}

void RequireExperts(const ModelConfig& config) {
  const ExpertsConfig& experts = config.experts;
  RequireExpertRange("experts", experts.count, 0, kMostExperts);
  if (!experts.any()) {
    return RequireNoExpertKeys(experts);
  }
  Require(experts.chosen > 0,
          "model.experts = {} needs model.experts_per_token: how many of them each token passes through, such as {}",
          experts.count, std::min<std::int64_t>(experts.count, 2));
  RequireExpertRange("experts_per_token", experts.chosen, 1, experts.count);
  RequireExpertRange("expert_ffn", experts.ffn, 1, kMostWidth);
  RequireExpertRange("shared_ffn", experts.shared_ffn, 0, kMostWidth);
  RequireExpertRange("dense_layers", experts.dense_layers, 0, config.layers - 1);
  RequireExpertRange("expert_period", experts.period, 1, config.layers);
  Require(config.SparseLayers() > 0, "model.dense_layers = {} and model.expert_period = {} leave no layer with experts",
          experts.dense_layers, experts.period);
  Require(!experts.shared_gate || experts.shared_ffn > 0,
          "model.shared_gate multiplies the output of a shared expert, but model.shared_ffn is 0");
  for (const auto& [key, value] :
       {std::pair{"balance_loss", experts.balance_loss}, std::pair{"router_z_loss", experts.z_loss},
        std::pair{"router_scale", experts.scale}}) {
    Require(std::isfinite(value) && value >= 0, "model.{} = {} must be a finite number, at least 0", key, value);
  }
  Require(experts.scale > 0, "model.router_scale = 0 leaves nothing of the experts; 1 is usual");
  Require(
      IsGated(config.feed_forward) && !config.linear_bias && !config.parallel_branches,
      "model.experts = {} in family '{}': experts are gated, without biases, in a branch of their own; take 'llama', "
      "'qwen3' or a family of docs/experts.md",
      experts.count, config.family);
  Require(!config.adapter.On("mlp.in") && !config.adapter.On("mlp.out"),
          "lora.targets = '{}' with model.experts = {}: adapters of experts are not offered; set lora.targets = "
          "'attention.qkv,attention.out'",
          config.adapter.targets, experts.count);
}

}  // namespace trireme
