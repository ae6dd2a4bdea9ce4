// Batch size, learning rate and end of a run, as functions of the samples consumed. A run whose recipe never changes
// needs no more than the recipe. One that is resumed with another batch, ramp-up, length or rate also needs where it
// stood: ScheduleState, which a checkpoint holds. A value: copy it freely; every rank computes the same.
//
// What a resume does, in the order of its decisions:
//  1. The end. The run ends when train.steps steps are taken, or train.samples (train.tokens) are consumed, whatever
//     the batches (and the sequences) were on the way.
//  2. The ramp-up. One that is changed while it is under way keeps its beginning. One that is added, or changed after
//     the old one was over, begins at the resume.
//  3. The schedule of the learning rate. If the end moved before the decay began, the decay ends at the new end. If it
//     moved during the decay, what is left of the decay is stretched over what is left of the run. If its kind, warm-up
//     or decay_samples changed, positions are counted from the run's first sample again.
//  4. The rate itself. If 3 or a changed rate would make it jump, it moves linearly from the old rate to the new
//     schedule's over bridge_samples. With on_resume = "recipe" there is neither 3 nor 4: the rate is at once what a
//     run of this recipe has after as many samples.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "run/run_config.h"

namespace trireme {

struct ScheduleState {
  std::int64_t end_samples = 0;  // consumed after the last step
  // The ramp-up that was in force; origin: samples consumed when it began.
  std::int64_t ramp_start = 0;
  std::int64_t ramp_increment = 0;
  std::int64_t ramp_samples = 0;
  std::int64_t ramp_origin = 0;
  // The schedule's position moves linearly from anchor_position at anchor_samples consumed to horizon at end_samples.
  std::int64_t anchor_samples = 0;
  double anchor_position = 0;
  double horizon = 0;
  // From bridge_start on, over bridge_samples (0: no bridge), the rate moves from bridge_rate to the schedule's.
  std::int64_t bridge_start = 0;
  std::int64_t bridge_samples = 0;
  double bridge_rate = 0;
  double next_rate = 0;  // of the step after the save
  bool operator==(const ScheduleState&) const = default;
};

// How far a run has come.
struct RunPosition {
  std::int64_t step = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;  // of these samples, each as long as the sequence was when it was trained
};

class RunSchedule {
 public:
  // The schedule of a run from its first step. Requires a validated config.
  explicit RunSchedule(const RunConfig& config);
  // The schedule of a run resumed under `config` from `at`. `changed`: keys of the recipe whose values differ from the
  // save. Appends to `notes` what a person must know of the change. An Error when a batch size that occurs from here on
  // cannot be cut into micro batches.
  RunSchedule(const RunConfig& config, const ScheduleState& saved, const RunPosition& at,
              const std::set<std::string>& changed, std::vector<std::string>& notes);

  std::int64_t GlobalBatchAt(std::int64_t consumed_samples) const;
  double LearningRateAt(std::int64_t consumed_samples) const;
  bool Finished(const RunPosition& at) const;
  // Steps of the whole run, given where it stands.
  std::int64_t TotalSteps(const RunPosition& at) const;
  // For a save with so many samples consumed.
  ScheduleState StateAt(std::int64_t consumed_samples) const;

 private:
  BatchSchedule Batches() const;
  double Position(std::int64_t consumed_samples) const;
  std::int64_t EndSamples(const RunPosition& at) const;
  void RampOn(const ScheduleState& saved, const RunPosition& at, std::vector<std::string>& notes);
  void MoveEnd(const ScheduleState& saved, const RunPosition& at, std::vector<std::string>& notes);
  // Counts positions from the run's first sample, without a bridge.
  void FollowRecipe();
  void Bridge(const ScheduleState& saved, const RunPosition& at, std::vector<std::string>& notes);

  BatchConfig batch_;
  OptimizerConfig optimizer_;
  std::int64_t steps_ = 0;  // 0: `samples_` says the end
  std::int64_t samples_ = 0;
  ScheduleState state_;
};

}  // namespace trireme
