// OPT: learned positions from row 2 of their table on, LayerNorm before branches, ReLU (Zhang et al. 2022).
#include "model/families.h"

namespace trireme {
namespace {

void CompleteOpt(ModelConfig& config, bool tie_given) {
  config.position_offset = 2;
  config.feed_forward = ActivationKind::kRelu;
  if (config.ffn == 0) {
    config.ffn = 4 * config.hidden;
  }
  if (!tie_given) {
    config.tie_embeddings = true;
  }
}

}  // namespace

ModelFamily OptFamily() {
  return {.name = "opt",
          .description = "learned positions with an offset, LayerNorm, ReLU, tied output",
          .complete = CompleteOpt};
}

}  // namespace trireme
