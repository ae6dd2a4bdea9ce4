// Granite: Llama with multipliers of the embedding, the branches, the scores and the logits (IBM 2024): the keys
// model.embedding_multiplier, residual_multiplier, attention_multiplier and logits_scaling.
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {

ModelFamily GraniteFamily() {
  return {.name = "granite",
          .description = "Llama with multipliers of embedding, branches, scores and logits",
          .complete = CompleteLikeLlama};
}

}  // namespace trireme
