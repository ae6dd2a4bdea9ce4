// How the tokens of a step spread over experts: what a run shows of its routers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/rank_parts.h"

namespace trireme {

// Over the layers with experts of a step, all ranks and micro batches, padding included.
struct ExpertLoad {
  std::map<std::int64_t, std::vector<std::int64_t>> rows;  // by layer: of each expert

  // The busiest expert's rows over the mean, in the layer where that is most; 1: equal loads.
  double MaxOverMean() const;
  // Entropy of the loads over that of equal ones, in the layer where it is least: 1 where all are equal, 0 where one
  // expert has all rows.
  double Entropy() const;
  // Experts without a row.
  std::int64_t Idle() const;
};

// The load of the last step. Collective over the world; the model has experts.
ExpertLoad GatherExpertLoad(RankParts& parts);

// Tells of experts that have had no row for many steps, each once.
class IdleExperts {
 public:
  static constexpr int kSteps = 100;
  // "" or a message with the remedy.
  std::string Look(const ExpertLoad& load);

 private:
  std::map<std::pair<std::int64_t, std::size_t>, int> steps_;  // by layer and expert: without a row
};

}  // namespace trireme
