// Rotary positions in a config.json: rope_theta and rope_scaling, or rope_parameters since transformers 5, one object
// or one for each kind of layer.
#pragma once

#include <nlohmann/json.hpp>

#include "checkpoint/hugging_face/config_keys.h"
#include "model/model_config.h"

namespace trireme {

// Sets base, scaling and the turned part of a head. `model.sequence` is known. Scaling that is not computed (dynamic,
// longrope) is an Error.
void ParseRotary(const ConfigKeys& keys, ModelConfig& model, double default_theta);
// rope_theta, and rope_scaling where the model scales.
void FormatRotary(const ModelConfig& model, nlohmann::json& root);

// Windows: sliding_window and layer_types, which must say what window_period can say.
void ParseWindows(const ConfigKeys& keys, ModelConfig& model);

}  // namespace trireme
