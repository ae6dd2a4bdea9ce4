// SmolLM3: Llama whose every fourth layer has no positions, output tied to the token table (Bakouch et al. 2025).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {
namespace {

void CompleteSmolLm3(ModelConfig& config, bool tie_given) {
  CompleteLikeLlama(config, tie_given);
  if (config.layer_types.empty()) {
    config.layer_types = "3*full, full_nope";
  }
  if (!tie_given) {
    config.tie_embeddings = true;
  }
}

}  // namespace

ModelFamily SmolLm3Family() {
  return {.name = "smollm3",
          .description = "Llama whose every fourth layer has no positions, tied output",
          .complete = CompleteSmolLm3};
}

}  // namespace trireme
