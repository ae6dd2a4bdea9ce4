// OLMoE: Llama with an RMS norm of all query and of all key heads, and experts (Muennighoff et al. 2024).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {
namespace {

void CompleteOlmoe(ModelConfig& config, bool tie_given) {
  CompleteLikeLlama(config, tie_given);
  config.qk_norm = QkNormChoice::kAllHeads;
}

}  // namespace

ModelFamily OlmoeFamily() {
  return {.name = "olmoe",
          .description = "Llama with norms of all queries and of all keys; made for experts",
          .complete = CompleteOlmoe};
}

}  // namespace trireme
