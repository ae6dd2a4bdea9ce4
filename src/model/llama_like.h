// What the families that follow Llama share: RMSNorm, rotary positions, SwiGLU, no biases, an output of their own.
#pragma once

#include "model/model_config.h"

namespace trireme {

// Llama's choices; a family then changes what it does otherwise.
void CompleteLikeLlama(ModelConfig& config, bool tie_given);
// Gemma 2's choices, which Gemma 3 shares. One layer in `window_period` sees all keys, unless the config says
// otherwise.
void CompleteLikeGemma(ModelConfig& config, bool tie_given, std::int64_t window_period);
// OLMo 2's, which OLMo 3 shares.
void CompleteLikeOlmo2(ModelConfig& config, bool tie_given);

}  // namespace trireme
