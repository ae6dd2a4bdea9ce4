// What a run tells about itself while it goes on: report/ shows and writes it. Called on rank 0's thread unless said
// otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/accounting.h"
#include "comm/phase_clock.h"
#include "train/expert_load.h"
#include "train/histogram.h"
#include "train/trainer.h"

namespace trireme {

// Facts about a step that observers may want besides its result; equal on every rank.
struct StepFacts {
  StepResult result;
  std::int64_t total_steps = 0;
  std::int64_t skipped_steps = 0;     // since the start of this process: without an update, for whatever reason
  std::int64_t nan_steps = 0;         // of these, those whose loss or gradient was not finite
  double hardware_flops = 0;          // of the step, over all ranks, recomputation included
  PhaseTimes phases;                  // of this rank's thread; empty where no ledger is kept
  std::optional<ExpertLoad> experts;  // of a model with experts
};

// Called on rank 0 only; Note also by the thread that saves. All functions may be left as they are.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  // Before the first step; resumed_step 0: from the beginning.
  virtual void Started(const Trainer& /*trainer*/, std::int64_t /*resumed_step*/) {}
  virtual void StepDone(const StepFacts& /*facts*/) {}
  virtual void Validated(std::int64_t /*step*/, double /*loss*/) {}
  virtual void Evaluated(std::int64_t /*step*/, const std::string& /*task*/, const std::vector<TaskScore>& /*scores*/) {
  }
  // After the first step: by rank, what it holds.
  virtual void MemoryMeasured(const std::vector<MemoryUse>& /*by_rank*/) {}
  // After the first step and before each save: how rank 0's device does its operations (Device::choices()), where it
  // had a choice.
  virtual void DeviceChose(const std::string& /*choices*/) {}
  // By name of the parameter: weights after the step, and gradients of the loss before clipping.
  struct StepHistograms {
    std::int64_t step = 0;
    std::map<std::string, Histogram> weights;
    std::map<std::string, Histogram> gradients;
  };
  virtual void HistogramsTaken(const StepHistograms& /*histograms*/) {}
  virtual void Note(const std::string& /*message*/) {}
  // A checkpoint of this step begins to be written.
  virtual void Saving(std::int64_t /*step*/) {}
  // After the last step, when all is saved.
  virtual void Ended() {}
};

}  // namespace trireme
