// A model's configuration inside a manifest: every field, so that a checkpoint can be read without its recipe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/model_config.h"

namespace trireme {

nlohmann::json ModelJson(const ModelConfig& model);
// Completed and checked as a recipe's model would be.
ModelConfig ParseModel(const nlohmann::json& value, const std::string& origin);

}  // namespace trireme
