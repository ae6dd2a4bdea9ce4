// Files that a run is scored on while it trains (evaluate.tasks): multiple-choice questions and texts, with the scores
// that `trireme evaluate` computes of them.
#pragma once

#include <vector>

#include "run/run_config.h"
#include "train/evaluation.h"

namespace trireme {

// One task for each file of evaluate.tasks, of sequences as long as the model's; none where there are no tasks. An
// Error names a file that cannot be read, or says that no tokenizer is known.
std::vector<EvaluationTask> OpenTasks(const RunConfig& config);

}  // namespace trireme
