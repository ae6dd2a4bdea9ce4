// Qwen3: Llama with an RMS norm of each query and key head (Yang et al. 2025).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {
namespace {

void CompleteQwen3(ModelConfig& config, bool tie_given) {
  CompleteLikeLlama(config, tie_given);
  config.qk_norm = QkNormChoice::kEachHead;
}

}  // namespace

ModelFamily Qwen3Family() {
  return {
      .name = "qwen3", .description = "Llama with an RMS norm of each query and key head", .complete = CompleteQwen3};
}

}  // namespace trireme
