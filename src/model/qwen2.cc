// Qwen2 and Qwen2.5: Llama with biases of queries, keys and values (Yang et al. 2024).
#include "model/families.h"
#include "model/llama_like.h"

namespace trireme {
namespace {

void CompleteQwen2(ModelConfig& config, bool tie_given) {
  CompleteLikeLlama(config, tie_given);
  config.qkv_bias = true;
}

}  // namespace

ModelFamily Qwen2Family() {
  return {.name = "qwen2", .description = "Llama with biases of queries, keys and values", .complete = CompleteQwen2};
}

}  // namespace trireme
