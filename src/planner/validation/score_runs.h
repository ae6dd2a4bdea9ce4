// Fills the scores of a Validation from its predictions.
#pragma once

#include "planner/validation/validate.h"

namespace trireme {

void ScoreRuns(Validation& validation);
// Errors of some predictions; those that a fit learned from and runs out of memory do not count.
GroupScore ScoreOf(const std::string& name, const std::vector<const Prediction*>& predictions);
// Fills validation.sources.
void ScoreSources(Validation& validation);
// Decision sets of some predictions.
std::vector<SetScore> SetsOf(const std::vector<const Prediction*>& predictions);

}  // namespace trireme
