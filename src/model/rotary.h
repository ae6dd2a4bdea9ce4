// The angles of rotary positions: a plain base, or one of the ways to reach longer sequences than a model was trained
// on. Definitions are those of Hugging Face's transformers, so that weights mean the same in both.
#pragma once

#include <vector>

#include "model/model_config.h"

namespace trireme {

struct RotaryAngles {
  std::vector<double> frequencies;  // of each pair: position p turns pair i by p * frequencies[i]
  float magnitude = 1;              // turned elements are multiplied by it
};

// linear: all frequencies divided by rope_factor. llama3: those that turn fewer than rope_low times (1) within
// rope_original positions are divided, those that turn more than rope_high times (4) stay, those between are mixed.
// yarn (Peng et al. 2023): mixed by pair between rope_high (32) and rope_low (1) turns, and a magnitude that follows
// from rope_factor. Windowed layers with a local_rope_theta have that base and no scaling.
RotaryAngles RotaryAnglesOf(const ModelConfig& model, std::int64_t layer);

}  // namespace trireme
