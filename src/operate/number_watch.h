// What a run does about the numbers of a step (loss, gradient norm, replicas that differ), as train.on_nonfinite,
// train.on_spike and train.rerun say: notes for people, a lower learning rate, a way back to the newest checkpoint.
// Numbers are equal on every rank, and so is what follows from them.
#pragma once

#include <cstdint>
#include <set>

#include "operate/spikes.h"
#include "operate/training_observer.h"
#include "run/run_config.h"
#include "train/trainer.h"

namespace trireme {

// A gradient beyond fp16, of a finite loss: the loss scale is lowered, and training goes on.
bool OnlyOverflowed(const StepResult& result);

// What a run has learnt about its numbers. A resumed run goes on with it, so that it judges the next steps as the run
// that was never interrupted.
struct NumberMemory {
  Spikes::State loss;
  Spikes::State norm;
  double rate_factor = 1;               // what on_spike = "lower" has made of the learning rate, of the schedule's
  std::set<std::int64_t> passed_steps;  // steps that spiked before on_spike = "rollback" went back
};

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

  // For the checkpoint of the trainer's step.
  NumberMemory memory() const;
  // Goes on from what the trainer's checkpoint has. Steps that are already passed over stay so.
  void Restore(const NumberMemory& memory);

 private:
  void set_rate_factor(double factor);
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
