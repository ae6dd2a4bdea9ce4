// Trains one rank's part of a model, a step at a time. Every rank of the world makes the same calls; losses, norms and
// decisions are equal on all of them.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "comm/rank_runner.h"
#include "comm/shared_gpu.h"
#include "data/samples/sample_source.h"
#include "run/run_config.h"
#include "run/run_schedule.h"
#include "run/step_list.h"
#include "train/evaluation.h"
#include "train/loss_scaler.h"
#include "train/rank_parts.h"
#include "train/step_recorder.h"
#include "train/step_result.h"

namespace trireme {

// With the seed and the state, all that the next step depends on.
struct Progress : RunPosition {
  std::int64_t updates = 0;  // steps that were not skipped: the optimizer's own count
  LossScaleState loss_scale;
};

class Trainer {
 public:
  // Requires Validate(config, world size). `sources` and the context outlive the trainer. Weights are drawn afresh.
  struct Sources {
    const SampleSource* train = nullptr;
    const SampleSource* validation = nullptr;  // may be missing when validation.every is 0
  };
  Trainer(const RunConfig& config, RankContext& context, const Sources& sources);

  // `request`: a number that this rank wants every rank to see after the step (a signal it got, say); 0 is none.
  StepResult Step(int request = 0);
  // Mean loss over validation.samples samples of the validation source, whatever the layout; none where no token of
  // them is a target.
  std::optional<double> Validate();
  // What the task's judge says of its samples' losses under the current weights, whatever the layout.
  std::vector<TaskScore> Evaluate(const EvaluationTask& task) { return EvaluateTask(parts_, gpu_, task); }

  // Asked between the numbers of a step and its update, with equal numbers on every rank: true has the step computed
  // again, and StepResult::verdict says what that showed. After kLasting no update is made.
  void set_suspicion(std::function<bool(const StepResult&)> suspicion) { suspicion_ = std::move(suspicion); }

  // Asked with equal numbers on every rank after those of a finite step: true has no update made.
  void set_veto(std::function<bool(const StepResult&)> veto) { veto_ = std::move(veto); }
  // Called on every rank before a step's update, with the factor that makes the owned gradients those of the loss
  // (HistogramsOfGradients).
  void set_before_update(std::function<void(const StepResult&, double factor)> hook) {
    before_update_ = std::move(hook);
  }
  // Multiplies the learning rate of later steps.
  void set_rate_factor(double factor) { rate_factor_ = factor; }
  // A later step whose samples are passed over, as those of train.skip_steps.
  void SkipStep(std::int64_t step) { passed_steps_.insert(step); }
  const std::set<std::int64_t>& passed_steps() const { return passed_steps_; }

  // Told of the phases of every step; nullptr: no ledger. Outlives the trainer or is replaced.
  void set_ledger(Ledger* ledger);

  const Progress& progress() const { return progress_; }
  // The whole state, for checkpoints: views of live memory, good until the next step or validation. Overwrites the
  // gradients. After writing to the views call Restore.
  std::vector<OwnedState> JoinState() { return parts_.zero().JoinState(); }
  // Requires a JoinState() that is still good, whether or not it was written to.
  void Restore(const Progress& progress);
  // Batches, learning rate and end of the run; a fresh run's unless it is replaced, between steps.
  const RunSchedule& schedule() const { return schedule_; }
  void set_schedule(const RunSchedule& schedule) { schedule_ = schedule; }

  // For what looks into this rank: evaluation, histograms, checks, counts.
  RankParts& parts() { return parts_; }
  const RunConfig& config() const { return parts_.config(); }
  const Sources& sources() const { return sources_; }
  const LossScaler& loss_scaler() const { return scaler_; }
  const Coordinate& coordinate() const { return parts_.coordinate(); }
  const ParameterTable& table() const { return parts_.table(); }
  Communicator& world() { return parts_.world(); }
  Device& device() const { return parts_.device(); }

 private:
  int NextMicroBatches() const;
  // Whether the recipe or SkipStep says so of a step.
  bool IsPassedOver(std::int64_t step) const { return skip_steps_.Has(step) || passed_steps_.contains(step); }
  StepResult Skip(StepResult result, int request);
  // The batch of the coming step; later ones begin behind it.
  std::vector<MicroBatch> LoadBatch(StepResult& result);
  // Forward and backward of every micro batch, and then the gradients, times the loss scale, reduced.
  void Compute(std::vector<MicroBatch> batch, std::int64_t step);
  // One exchange gives every rank the same numbers, so the same decisions. Returns the factor that unscales the
  // gradients.
  double ReduceStepStats(StepResult& result, int micro_batches, int request);
  // Has a suspicious step computed again (set_suspicion). `first`: its first sample. Returns the factor of the
  // gradients that count.
  double CheckSuspicion(StepResult& result, std::int64_t first, int micro_batches, double unscale);
  // After the numbers of a step.
  void AdaptLossScale(StepResult& result);
  // Updates owned shards by the clipped gradients, then makes parameters present again; or neither, where the numbers
  // forbid it. Returns when the device has done so.
  void Update(const StepResult& result, double unscale);
  void Consume(std::int64_t samples);
  // The step is done: its result is where the run is now.
  void Advance(StepResult& result);
  void Mark(std::string_view phase);

  RankParts parts_;
  Sources sources_;
  RunSchedule schedule_;
  LossScaler scaler_;
  SharedGpu gpu_;
  StepRecorder recorder_;
  Progress progress_;
  StepList skip_steps_;
  std::set<std::int64_t> passed_steps_;
  std::function<bool(const StepResult&)> suspicion_;
  std::function<bool(const StepResult&)> veto_;
  std::function<void(const StepResult&, double)> before_update_;
  double rate_factor_ = 1;
  Ledger* ledger_ = nullptr;
};

}  // namespace trireme
