// Fills the scores of a Validation from its predictions.
#pragma once

#include "planner/validate.h"

namespace trireme {

void ScoreRuns(Validation& validation);

}  // namespace trireme
