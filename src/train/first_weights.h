// The weights that a run starts with when a recipe goes on from another model (model.from).
#pragma once

#include <string>

#include "train/trainer.h"

namespace trireme {

// Writes the weights at `path` (see OpenWeights) into a trainer that has made no step, each rank what it holds under
// the layout of its run. Every rank of the world calls it.
void LoadFirstWeights(const std::string& path, Trainer& trainer);

}  // namespace trireme
