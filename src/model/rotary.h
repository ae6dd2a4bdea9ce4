// The angles of rotary positions: a plain base, or one of the ways to reach longer sequences than a model was trained
// on. Definitions are those of Hugging Face's transformers, so that weights mean the same in both.
#pragma once

#include <cstdint>
#include <string>
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
// from rope_factor, or rope_magnitude. longrope (Ding et al. 2024): each pair divided by its factor, of
// rope_short_factors for up to rope_original positions and of rope_long_factors for more; a magnitude that follows from
// rope_factor. Windowed layers with a local_rope_theta have that base and no scaling. `positions` of a sequence; 0: the
// model's.
RotaryAngles RotaryAnglesOf(const ModelConfig& model, std::int64_t layer, std::int64_t positions = 0);

// Whether a sequence of so many positions takes rope_long_factors.
bool TakesLongFactors(const ModelConfig& model, std::int64_t positions);
// The magnitude of yarn.
double YarnMagnitude(double factor, double scale = 1);
// The magnitude of longrope.
double LongRopeMagnitude(double factor, double original);
// Numbers above 0 with commas between them; an Error names the key.
std::vector<double> ParseRopeFactors(const char* key, const std::string& text);
std::string FormatRopeFactors(const std::vector<double>& factors);

}  // namespace trireme
