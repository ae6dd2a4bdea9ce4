// The model of a measured run. Tables know families that the trainer does not run; the planner prices them all.
#pragma once

#include "model/model_config.h"
#include "planner/validation/measured_runs.h"

namespace trireme {

// Empty cells take the family's habit. An Error says what is wrong with the shape.
ModelConfig ModelOfRun(const MeasuredRun& run);

// Tensor ranks beyond the key heads hold copies of them, as Megatron does it: as many key heads as ranks.
void SpreadKeyHeads(int tensor, ModelConfig& model);

}  // namespace trireme
