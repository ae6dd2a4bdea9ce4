// Qwen3: Llama with an RMS norm of each query and key head (Yang et al. 2025).
#include "base/shape.h"
#include "model/families.h"

namespace trireme {
namespace {

// Below this width a multiple of 256 would distort the shape.
constexpr std::int64_t kSmallHidden = 1024;

void Complete(ModelConfig& config, bool tie_given) {
  config.norm = NormChoice::kRmsNorm;
  config.position = PositionChoice::kRotary;
  config.feed_forward = FeedForwardChoice::kSwiGlu;
  config.biases = false;
  config.qk_norm = QkNormChoice::kEachHead;
  config.embedding_norm = false;
  if (config.ffn == 0) {
    // Three matrices of 8/3 hidden hold as much as two of 4 hidden.
    config.ffn = RoundUp(CeilDiv(8 * config.hidden, 3), config.hidden < kSmallHidden ? 8 : 256);
  }
  if (!tie_given) {
    config.tie_embeddings = false;
  }
}

}  // namespace

ModelFamily Qwen3Family() {
  return {.name = "qwen3", .description = "Llama with an RMS norm of each query and key head", .complete = Complete};
}

}  // namespace trireme
