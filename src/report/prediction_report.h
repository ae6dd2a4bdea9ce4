// Predicted against measured: what a run says of its prediction before the first step, when it is much slower, when its
// first steps contradict it, and at its end. Keeps the seconds of the steps it was told of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operate/training_loop.h"
#include "report/prediction.h"

namespace trireme {

class PredictionReport {
 public:
  // run_folder: holds prediction.json and metrics.jsonl of an earlier process; empty: none.
  PredictionReport(const RunConfig& config, const PredictionContext& context, const std::string& run_folder);

  // Reads what steps up to `resumed_step` took, where the folder's earlier process had the same fingerprint; then
  // writes prediction.json. Call it before metrics.jsonl is opened to append.
  void ReadEarlierSteps(std::int64_t resumed_step);
  // Steps that remain are told as (batch, number of steps).
  struct Stretch {
    std::int64_t global_batch = 0;
    std::int64_t steps = 0;
  };
  std::string Expectation(const std::vector<Stretch>& remaining, std::int64_t memory_bytes);

  double Seconds(std::int64_t global_batch) { return prediction_.Seconds(global_batch); }
  StepEstimate Estimate(std::int64_t global_batch) { return prediction_.Estimate(global_batch); }
  // A step was measured, by cause where `by_cause`. Returns a message, once, when the run is much slower than
  // predicted, or its first steps take more than twice or less than half as long; empty otherwise. In the latter case
  // the message and prediction.json have a second prediction, from these steps; Seconds() stays the first one.
  std::string StepDone(const StepFacts& facts, bool by_cause);
  // Predicted against measured for a person; empty when too few steps were measured.
  std::string Summary();

 private:
  StepCauses MedianCauses() const;
  std::string CausesText();
  std::string LargestExcess();
  // Predicts again from the steps measured so far; what the message says of it.
  std::string PredictAgain(std::int64_t step);
  void WriteFile() const;

  RunConfig config_;
  RunPrediction prediction_;
  std::string run_folder_;
  nlohmann::ordered_json file_;  // what prediction.json holds
  std::int64_t batch_ = 0;       // of the steps in the lists below
  std::int64_t seen_ = 0;        // steps of this process
  std::vector<double> seconds_;  // without the first two steps, which prepare
  std::vector<StepCauses> causes_;
  bool complained_ = false;
};

}  // namespace trireme
