// A whole run on one rank: sources, trainer, newest checkpoint, steps, validation, saves, and an orderly end. What is
// shown to people is an observer's business (report/).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "comm/rank_runner.h"
#include "operate/drill.h"
#include "operate/run_source.h"
#include "operate/stop_signals.h"
#include "operate/stop_watch.h"
#include "operate/trace_recorder.h"
#include "operate/training_observer.h"
#include "run/run_config.h"
#include "train/histogram.h"
#include "train/trainer.h"

namespace trireme {

struct LoopOptions {
  // Checkpoints go to its checkpoints/, ledgers to its flight/; empty: neither is written or read.
  std::string run_folder;
  StopSignals* signals = nullptr;   // may be missing
  StopWatch* stop_watch = nullptr;  // of this process; may be missing
  // Save and end so that this time is not passed, in nanoseconds since 1970; 0: no such time.
  std::int64_t leave_before_ns = 0;
  // When the job itself ends, in the same count; 0: not known. No failed save is tried again beyond it.
  std::int64_t job_ends_ns = 0;
  // For runs in stages: a checkpoint from which this one goes on has consumed so many samples, and it ends after a save
  // once `end_samples` are consumed (0: at the end of the recipe).
  std::int64_t begin_samples = 0;
  std::int64_t end_samples = 0;
  std::set<std::string> drop_state;  // what a resume may drop, see RunCheckpointOptions
  std::function<void()> begins;      // called on rank 0 once it is clear that this stage is trained; may be empty
  Drill drill;
  TraceSteps trace;                                    // steps that ranks record into run_folder's trace/
  const std::vector<EvaluationTask>* tasks = nullptr;  // scored as config.evaluate says; may be missing
};

enum class LoopEnd {
  kFinished,
  kStopped,
  kUnsaved,     // finished or stopped, but the last save failed
  kOtherStage,  // nothing was trained: the newest good checkpoint has not consumed begin_samples
};

struct LoopResult {
  LoopEnd end = LoopEnd::kFinished;
  std::int64_t step = 0;
  std::int64_t consumed_samples = 0;
  bool whole = false;  // the recipe's end is reached, not only that of LoopOptions::end_samples
  double last_loss = 0;
};

// Collective over the context's world. `observer` is used on rank 0 only and may be missing. Ends early, after a save,
// when any rank's signals ask for it, when its time is up, or when the folder holds a file named "stop" (one named
// "save" saves and goes on). A last save that fails is tried again for checkpoint.final_save_wait seconds; a further
// request to stop ends that.
LoopResult RunTraining(const RunConfig& config, RankContext& context, const Trainer::Sources& sources,
                       const LoopOptions& options, TrainingObserver* observer);

}  // namespace trireme
