// What a run does about the numbers of a step (loss, gradient norm, replicas that differ), as train.on_nonfinite,
// train.on_spike and train.rerun say: notes for people, a lower learning rate, a way back to the newest checkpoint.
// Numbers are equal on every rank, and so is what follows from them.
#pragma once

#include <cstdint>

#include "operate/spikes.h"
#include "operate/training_observer.h"
#include "run/run_config.h"
#include "train/trainer.h"

namespace trireme {

// A gradient beyond fp16, of a finite loss: the loss scale is lowered, and training goes on.
bool OnlyOverflowed(const StepResult& result);

class NumberWatch {
 public:
  // Tells the trainer which steps are suspicious and which updates to refuse. All three outlive this, and the trainer
  // takes no step after its end.
  NumberWatch(const RunConfig& config, Trainer& trainer, TrainingObserver& observer);

  // Looks at a step that was taken. An Error when the run must end: a lasting fault, a number that is not finite under
  // on_nonfinite = "stop", or one that stays so after going back.
  void Look(const StepResult& result);

  // Whether the run has to go back to its newest checkpoint after this step; counts how often it did.
  bool MustGoBack(std::int64_t step);
  // It did: a step that spiked is not computed again, since equal samples would give an equal spike.
  void WentBack();

  // What on_spike = "lower" has made of the learning rate: a factor of the schedule's.
  double rate_factor() const { return rate_factor_; }
  void set_rate_factor(double factor);

 private:
  bool IsSpike(const StepResult& result) const;
  void LookAtNonFinite(const StepResult& result);
  void LookForSpikes(const StepResult& result);

  const TrainConfig& config_;
  Trainer& trainer_;
  TrainingObserver& observer_;
  Spikes losses_;
  Spikes norms_;
  bool going_back_ = false;
  int times_back_ = 0;
  std::int64_t failed_step_ = 0;
  std::int64_t spike_step_ = 0;  // not to be computed after going back
  double rate_factor_ = 1;
};

}  // namespace trireme
