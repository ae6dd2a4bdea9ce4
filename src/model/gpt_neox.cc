// GPT-NeoX and Pythia: both branches read the block's input, rotary positions of a quarter of each head, LayerNorm,
// GELU (Black et al. 2022).
#include "model/families.h"

namespace trireme {
namespace {

void CompleteGptNeox(ModelConfig& config, bool tie_given) {
  config.position = PositionChoice::kRotary;
  config.feed_forward = ActivationKind::kExactGelu;
  config.parallel_branches = !config.serial_branches;
  if (config.rotary_fraction == 0) {
    // A quarter, or the next larger part that is whole pairs.
    const std::int64_t head = config.head_size();
    config.rotary_fraction = head % 8 == 0 ? 0.25 : head % 4 == 0 ? 0.5 : 1;
  }
  if (config.ffn == 0) {
    config.ffn = 4 * config.hidden;
  }
  if (!tie_given) {
    config.tie_embeddings = false;
  }
}

}  // namespace

ModelFamily GptNeoXFamily() {
  return {.name = "gpt_neox",
          .description = "parallel branches, rotary positions of a part of each head, LayerNorm, GELU",
          .complete = CompleteGptNeox};
}

}  // namespace trireme
