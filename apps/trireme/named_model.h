// The model that a command names, or its shape.
#pragma once

#include <string>

#include "planner/queries/plan_answer.h"

namespace CLI {
class App;
}

namespace trireme {

// --model, --family, --layers and the like, --models-folder.
void AddModelOptions(CLI::App& app, std::string& model, ShapeOptions& shape, std::string& models_folder);

// A file of models/, a recipe, a Hugging Face directory or its config.json.
ModelConfig ReadNamedModel(const std::string& model, const std::string& models_folder);

}  // namespace trireme
