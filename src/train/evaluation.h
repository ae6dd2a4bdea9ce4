// A task that a run is scored on while it trains: samples, and what their losses say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/samples/sample_source.h"

namespace trireme {

struct TaskScore {
  std::string name;
  double value = 0;
};

struct EvaluationTask {
  std::string name;
  std::vector<Sample> samples;  // of a whole sequence each; weights say which targets count
  // Each sample's loss is wanted, not only their sum. Such a sample has a micro batch to itself.
  bool apart = false;
  // From the samples' losses, each the weighted sum over its targets in nats; without `apart` one number, their sum.
  std::function<std::vector<TaskScore>(const std::vector<double>& losses)> judge;
};

}  // namespace trireme
