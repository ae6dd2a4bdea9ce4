// Which of llama.cpp's architectures computes a model with experts.
#pragma once

#include "checkpoint/gguf/gguf_model.h"

namespace trireme {

// An Error says what the architecture fixes otherwise than the model has it: it would compute something else.
const GgufArchitecture& GgufExpertArchitectureOf(const ModelConfig& model);
// The width of a file's feed-forward parts: where llama.cpp knows one alone, it is that of experts.
std::int64_t GgufWidth(const ModelConfig& model);

}  // namespace trireme
