// OLMo 2: Llama with norms after its branches instead of before, and an RMS norm of all query and of all key heads
// (Walsh et al. 2024).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {

void CompleteLikeOlmo2(ModelConfig& config, bool tie_given) {
  CompleteLikeLlama(config, tie_given);
  config.qk_norm = QkNormChoice::kAllHeads;
  config.pre_norm = false;
  config.post_norm = true;
}

ModelFamily Olmo2Family() {
  return {.name = "olmo2",
          .description = "Llama with norms after branches and of queries and keys",
          .complete = CompleteLikeOlmo2};
}

}  // namespace trireme
