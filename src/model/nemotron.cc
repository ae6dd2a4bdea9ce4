// Nemotron: LayerNorm with gains around 0, rotary positions of half a head, squared ReLU, no biases of linear layers
// (Parmar et al. 2024).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {
namespace {

void CompleteNemotron(ModelConfig& config, bool tie_given) {
  if (config.ffn == 0) {
    config.ffn = 4 * config.hidden;
  }
  CompleteLikeLlama(config, tie_given);
  config.norm = NormKind::kLayer;
  config.norm_bias = true;
  config.gain_offset = 1;
  config.feed_forward = ActivationKind::kSquaredRelu;
  if (config.rotary_fraction == 0) {
    config.rotary_fraction = config.head_size() % 4 == 0 ? 0.5 : 1;  // whole pairs
  }
}

}  // namespace

ModelFamily NemotronFamily() {
  return {.name = "nemotron",
          .description = "LayerNorm, rotary positions of half a head, squared ReLU",
          .complete = CompleteNemotron};
}

}  // namespace trireme
