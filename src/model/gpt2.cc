// GPT-2: learned positions, LayerNorm before each branch, GELU (tanh form), biases everywhere, output tied to the token
// table (Radford et al. 2019).
#include "model/families.h"

namespace trireme {
namespace {

void CompleteGpt2(ModelConfig& config, bool tie_given) {
  config.norm = NormKind::kLayer;
  config.position = PositionChoice::kLearned;
  config.feed_forward = ActivationKind::kGelu;
  if (config.ffn == 0) {
    config.ffn = 4 * config.hidden;
  }
  if (!tie_given) {
    config.tie_embeddings = true;
  }
}

}  // namespace

ModelFamily Gpt2Family() {
  return {.name = "gpt2", .description = "learned positions, LayerNorm, GELU, tied output", .complete = CompleteGpt2};
}

}  // namespace trireme
