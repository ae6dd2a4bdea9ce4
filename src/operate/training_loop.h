// A whole run on one rank: sources, trainer, newest checkpoint, steps, validation, saves, and an orderly end. What is
// shown to people is an observer's business (report/).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/accounting.h"
#include "comm/phase_clock.h"
#include "comm/rank_runner.h"
#include "operate/drill.h"
#include "operate/stop_signals.h"
#include "operate/trace_recorder.h"
#include "run/run_config.h"
#include "train/trainer.h"

namespace trireme {

// Facts about a step that observers may want besides its result; equal on every rank.
struct StepFacts {
  StepResult result;
  std::int64_t total_steps = 0;
  std::int64_t skipped_steps = 0;  // since the start of this process: without an update, for whatever reason
  std::int64_t nan_steps = 0;      // of these, those whose loss or gradient was not finite
  double hardware_flops = 0;       // of the step, over all ranks, recomputation included
  PhaseTimes phases;               // of this rank's thread; empty where no ledger is kept
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
  virtual void Note(const std::string& /*message*/) {}
  // A checkpoint of this step begins to be written.
  virtual void Saving(std::int64_t /*step*/) {}
  // After the last step, when all is saved.
  virtual void Ended() {}
};

struct LoopOptions {
  // Checkpoints go to its checkpoints/, ledgers to its flight/; empty: neither is written or read.
  std::string run_folder;
  StopSignals* signals = nullptr;  // may be missing
  // Save and end so that this time is not passed, in nanoseconds since 1970; 0: no such time.
  std::int64_t leave_before_ns = 0;
  // Ends after a save once so many samples are consumed; 0: at the end of the recipe. For runs in stages.
  std::int64_t end_samples = 0;
  Drill drill;
  TraceSteps trace;                                    // steps that every rank records into run_folder's trace/
  const std::vector<EvaluationTask>* tasks = nullptr;  // scored as config.evaluate says; may be missing
};

enum class LoopEnd { kFinished, kStopped };

struct LoopResult {
  LoopEnd end = LoopEnd::kFinished;
  std::int64_t step = 0;
  std::int64_t consumed_samples = 0;
  bool whole = false;  // the recipe's end is reached, not only that of LoopOptions::end_samples
  double last_loss = 0;
};

// Collective over the context's world. `observer` is used on rank 0 only and may be missing. Ends early, after a save,
// when any rank's signals ask for it, when its time is up, or when the folder holds a file named "stop" (one named
// "save" saves and goes on).
LoopResult RunTraining(const RunConfig& config, RankContext& context, const Trainer::Sources& sources,
                       const LoopOptions& options, TrainingObserver* observer);

// The run's sources as data.source says; an Error when a file is missing or unfit.
std::unique_ptr<SampleSource> OpenRunSource(const RunConfig& config, const std::string& split);

}  // namespace trireme
