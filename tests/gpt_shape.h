// A GPT of a given size, as published tables describe them: 2048 tokens of a sample.
#pragma once

#include "model/model_config.h"

namespace trireme::test {

inline ModelConfig GptShape(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocabulary) {
  return Completed(ModelConfig{.family = "gpt2",
                               .layers = layers,
                               .hidden = hidden,
                               .heads = heads,
                               .vocabulary = vocabulary,
                               .sequence = 2048});
}

}  // namespace trireme::test
