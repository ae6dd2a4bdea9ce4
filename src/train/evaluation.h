// Losses under the current weights, whatever the layout: of a validation source, and of a task that a run is scored on
// while it trains.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/samples/sample_source.h"

namespace trireme {

class RankParts;
class SharedGpu;

struct TaskScore {
  std::string name;
  double value = 0;
};

// Logits of some tokens of a task's sample, of one tensor rank's part of the vocabulary: [rows, columns].
struct TaskLogits {
  std::int64_t sample = 0;
  std::int64_t first_token = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
  std::vector<float> values;
};

struct EvaluationTask {
  std::string name;
  std::vector<Sample> samples;  // of a whole sequence each; weights say which targets count
  // Each sample's loss is wanted, not only their sum. Such a sample has a micro batch to itself.
  bool apart = false;
  // From the samples' losses, each the weighted sum over its targets in nats; without `apart` one number, their sum.
  std::function<std::vector<TaskScore>(const std::vector<double>& losses)> judge;
  // Called on the ranks that hold the head, where given; layout.micro_batch and layout.context must then be 1.
  std::function<void(const TaskLogits&)> logits = {};
};

// Mean loss over validation.samples samples of `source`; none where no token of them is a target. Every rank gets the
// same. Collective over the world.
std::optional<double> ValidationLoss(RankParts& parts, SharedGpu& gpu, const SampleSource& source);
// What the task's judge says of its samples' losses. Collective over the world.
std::vector<TaskScore> EvaluateTask(RankParts& parts, SharedGpu& gpu, const EvaluationTask& task);

}  // namespace trireme
