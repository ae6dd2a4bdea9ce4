// What the planner expects of a run, from the best knowledge there is: earlier steps of the run itself, a calibration
// of this machine, or a cluster file.
#pragma once

#include <map>
#include <string>

#include "planner/pricing/step_estimate.h"
#include "report/step_causes.h"
#include "run/run_config.h"

namespace trireme {

// The machine that a run is predicted for.
struct PredictionContext {
  Cluster cluster;
  SoftwareStack stack;
  std::string knowledge;  // "the calibration of 2026-11-16", for people
};

class RunPrediction {
 public:
  // config: of a run that has made its choices (operate/run_start.h); fp8 products that are still "auto" count as all.
  RunPrediction(const RunConfig& config, const PredictionContext& context);

  // Seconds of a step of this batch, and an interval that holds 80 %.
  double Seconds(std::int64_t global_batch);
  double Low(std::int64_t global_batch);
  double High(std::int64_t global_batch);
  StepCauses Causes(std::int64_t global_batch);
  // By the model; its seconds are those of Seconds().
  StepEstimate Estimate(std::int64_t global_batch);
  const std::string& knowledge() const { return knowledge_; }

  // Replaces the model's seconds by what `steps` earlier steps of this batch took; other batches in proportion.
  void LearnFrom(std::int64_t global_batch, double seconds, std::int64_t steps);

  // Equal for runs whose steps take equally long: model, layout, batch, types, threads.
  std::string fingerprint() const;

 private:
  const StepEstimate& EstimateOf(std::int64_t global_batch);
  PlanPoint PointOf(std::int64_t global_batch) const;

  RunConfig config_;
  Cluster cluster_;
  StackState state_;
  ModelAccount account_;
  PipelineClock clock_;
  std::map<std::int64_t, StepEstimate> estimates_;
  std::string knowledge_;
  double factor_ = 1;  // of earlier steps over the model
  double spread_ = 0.1;
};

}  // namespace trireme
