// BLOOM: ALiBi instead of positions, a LayerNorm right after the embedding, GELU (tanh form), biases, output tied to a
// large token table (BigScience 2022).
#include "model/families.h"

namespace trireme {
namespace {

void CompleteBloom(ModelConfig& config, bool tie_given) {
  config.norm = NormKind::kLayer;
  config.position = PositionChoice::kAlibi;
  config.feed_forward = ActivationKind::kGelu;
  config.embedding_norm = true;
  if (config.ffn == 0) {
    config.ffn = 4 * config.hidden;
  }
  if (!tie_given) {
    config.tie_embeddings = true;
  }
}

}  // namespace

ModelFamily BloomFamily() {
  return {.name = "bloom", .description = "ALiBi, embedding LayerNorm, GELU, tied output", .complete = CompleteBloom};
}

}  // namespace trireme
