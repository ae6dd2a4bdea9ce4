// Activations and biases in a config.json.
#pragma once

#include <string>

#include "checkpoint/hugging_face/config_keys.h"
#include "model/model_config.h"

namespace trireme {

// Sets model.activation by a name that transformers knows; `usual`: the family's own, whose choice stays automatic. An
// Error names the key and the known ones.
void ParseActivation(const ConfigKeys& keys, const char* key, const char* usual, ModelConfig& model);
// The name of a feed-forward part's function, or of its gates'.
std::string FormatActivation(const ModelConfig& model);

// model.attention_bias or model.mlp_bias by a flag; `usual`: the family's own, whose choice stays automatic.
BiasChoice ParseBias(const ConfigKeys& keys, const char* key, bool usual);

}  // namespace trireme
