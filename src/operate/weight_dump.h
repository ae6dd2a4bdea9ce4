// Weights as one rank holds them, for comparison with another run, rank or program (log.dump_steps): a file of the
// safetensors format, fp32, named by step, moment and rank, with the slices of every parameter of the rank.
#pragma once

#include <string>

#include "train/trainer.h"

namespace trireme {

// Writes FOLDER/step-000012-before-rank-3.safetensors for `when` = "before". Collective over the data group.
void DumpWeights(Trainer& trainer, const std::string& folder, std::int64_t step, const std::string& when);

}  // namespace trireme
