// Positions and windows in a config.json: rope_theta and rope_scaling, or rope_parameters since transformers 5, one
// object or one for each kind of layer.
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

// Windows of families whose layers are alike: sliding_window.
void ParseWindows(const ConfigKeys& keys, ModelConfig& model);
// The kinds that layer_types says, with positions; empty without the key.
std::vector<LayerKind> ParseLayerKinds(const ConfigKeys& keys, const ModelConfig& model);
// An Error for a number of layers that no model has.
void RequireLayers(const ConfigKeys& keys, const ModelConfig& model);
// Sets window, and window_period or layer_types where the family's defaults are other kinds of layers.
void SetLayers(const std::vector<LayerKind>& kinds, std::int64_t window, ModelConfig& model);
// "sliding_attention" or "full_attention" of each layer.
nlohmann::json LayerTypesJson(const ModelConfig& model);

}  // namespace trireme
