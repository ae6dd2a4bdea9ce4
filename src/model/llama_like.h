// What the families that follow Llama share: RMSNorm, rotary positions, SwiGLU, no biases, an output of their own.
#pragma once

#include "model/model_config.h"

namespace trireme {

// Llama's choices; a family then changes what it does otherwise.
void CompleteLikeLlama(ModelConfig& config, bool tie_given);

}  // namespace trireme
