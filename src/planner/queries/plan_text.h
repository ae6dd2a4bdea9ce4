// A ranking for people; plan_json.h has it for programs.
#pragma once

#include <string>

#include "planner/queries/training_time.h"
#include "planner/search/search.h"

namespace trireme {

struct RankingOptions {
  double tokens = 0;         // of the whole training; 0: days are left out
  double deadline_days = 0;  // above 0: says which miss it
  double device_hours = 0;   // allocation; above 0: says which exceed it
  int rows = 15;
};

std::string RankingText(const SearchResult& result, const SearchRequest& request, const RankingOptions& options);

// Days of `tokens` at a candidate's speed, with checkpoints and restarts.
TrainingTime TimeOfTraining(const SearchRequest& request, const Candidate& candidate, double tokens);

}  // namespace trireme
