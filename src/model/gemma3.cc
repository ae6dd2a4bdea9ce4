// Gemma 3 (text): Gemma 2 with an RMS norm of each query and key head, five windowed layers to one without, and a
// rotary base of their own in windowed layers (Gemma Team 2025).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {
namespace {

void CompleteGemma3(ModelConfig& config, bool tie_given) {
  CompleteLikeGemma(config, tie_given, 6);
  config.qk_norm = QkNormChoice::kEachHead;
  if (config.local_rope_theta == 0) {
    config.local_rope_theta = 10000;
  }
}

}  // namespace

ModelFamily Gemma3Family() {
  return {.name = "gemma3",
          .description = "Gemma 2 with norms of queries and keys, five windows to one",
          .complete = CompleteGemma3};
}

}  // namespace trireme
