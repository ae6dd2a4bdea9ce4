// Runs the forward and backward passes of a step by its schedule, and has the device record them as a graph and repeat
// it (Device::Repeat) where steps start the same operations: a step of one rank whole, else the computations of each
// action.
#pragma once

#include <map>
#include <span>

#include "comm/ledger.h"
#include "comm/shared_gpu.h"
#include "train/rank_parts.h"

namespace trireme {

class StepRecorder {
 public:
  // All outlive this. dynamic_loss_scale: the scale changes from step to step.
  StepRecorder(RankParts& parts, SharedGpu& gpu, bool dynamic_loss_scale);

  // Told of the phases of a step; nullptr: no ledger. Outlives this or is replaced.
  void set_ledger(Ledger* ledger);

  // Every micro batch forward and backward; FinishGradients is still to come.
  void Run(std::span<const MicroBatch> batch, std::int64_t step);

 private:
  struct PlannedSchedule {
    Schedule schedule;
    SlotPlan slots;
  };
  const PlannedSchedule& ScheduleFor(int micro_batches);
  // Whether all steps of as many micro batches start the same operations on the device: dropout and a dynamic loss
  // scale change them, a ledger may have to be called in each phase, and weights and activations that come from the
  // host do so in other streams.
  bool StepsAreAlike() const;
  // What of such a step can be recorded when several ranks meet in it.
  PipelineRunner::Repeats Repeated(int micro_batches);

  RankParts& parts_;
  SharedGpu& gpu_;
  const bool dynamic_loss_scale_;
  std::map<int, PlannedSchedule> schedules_;  // by their micro batches
  Ledger* ledger_ = nullptr;
};

}  // namespace trireme
