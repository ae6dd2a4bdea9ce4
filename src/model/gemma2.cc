// Gemma 2: norms before and after branches with gains around 0, GeGLU, embeddings times sqrt(hidden), soft caps,
// windows in every other layer (Gemma Team 2024).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {

void CompleteLikeGemma(ModelConfig& config, bool tie_given, std::int64_t window_period) {
  CompleteLikeLlama(config, tie_given);
  config.feed_forward = ActivationKind::kGeGlu;
  config.gain_offset = 1;
  config.post_norm = true;
  config.scale_embedding = true;
  if (config.window_period == 0 && config.layer_types.empty()) {
    config.window_period = window_period;
  }
  if (!tie_given) {
    config.tie_embeddings = true;
  }
}

ModelFamily Gemma2Family() {
  return {.name = "gemma2",
          .description = "norms before and after branches, GeGLU, soft caps, alternating windows",
          .complete = [](ModelConfig& config, bool tie_given) { CompleteLikeGemma(config, tie_given, 2); }};
}

}  // namespace trireme
