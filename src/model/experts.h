// Mixtures of experts: the feed-forward part of some layers is a router, which chooses a few of many experts for each
// token, and perhaps an expert that every token has (docs/experts.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/words.h"
#include "ops/experts.h"

namespace trireme {

// The header of the operations has no words: kernels include it.
template <>
inline constexpr std::array<std::string_view, 2> kWords<RouterScore> = {"softmax", "sigmoid"};

struct ExpertsConfig {
  std::int64_t count = 0;       // E; 0: every layer is dense
  std::int64_t chosen = 0;      // k
  std::int64_t ffn = 0;         // inner width of an expert; 0: ModelConfig::ffn
  std::int64_t shared_ffn = 0;  // of the expert that every token has; 0: none
  bool shared_gate = false;     // its output is multiplied by sigmoid(x * g)
  RouterScore score = RouterScore::kSoftmax;
  bool renormalize = true;        // weights of the chosen add up to `scale`
  double scale = 1;               // of the weights
  std::int64_t dense_layers = 0;  // the first so many layers are dense
  std::int64_t period = 1;        // of the layers, every so many have experts
  double balance_loss = 0;        // weight of the loss that balances experts within each sequence
  double z_loss = 0;              // of the squared log-normaliser of the router's logits

  bool any() const { return count > 0; }
  bool operator==(const ExpertsConfig&) const = default;
};

struct ModelConfig;
// An Error names the key that does not fit; of a completed config, whose family has what experts need.
void RequireExperts(const ModelConfig& config);
// With defaults in place of zeros.
ExpertsConfig CompletedExperts(const ModelConfig& config);

}  // namespace trireme
