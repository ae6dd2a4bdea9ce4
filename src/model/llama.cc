// Llama: RMSNorm, rotary positions, SwiGLU, grouped-query attention, no biases, output of its own unless tied (Touvron
// et al. 2023; Dubey et al. 2024). SmolLM is Llama with a tied output.
#include "base/shape.h"
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {

void CompleteLikeLlama(ModelConfig& config, bool tie_given) {
  config.norm = NormKind::kRms;
  config.position = PositionChoice::kRotary;
  config.feed_forward = ActivationKind::kSwiGlu;
  config.norm_bias = config.qkv_bias = config.out_bias = config.linear_bias = false;
  if (config.ffn == 0) {
    // Three matrices of 8/3 hidden hold as much as two of 4 hidden. Below 1024 a multiple of 256 would distort the
    // shape.
    constexpr std::int64_t kSmallHidden = 1024;
    config.ffn = RoundUp(CeilDiv(8 * config.hidden, 3), config.hidden < kSmallHidden ? 8 : 256);
  }
  if (!tie_given) {
    config.tie_embeddings = false;
  }
}

ModelFamily LlamaFamily() {
  return {.name = "llama",
          .description = "RMSNorm, rotary positions, SwiGLU, grouped-query attention, no biases",
          .complete = CompleteLikeLlama};
}

}  // namespace trireme
