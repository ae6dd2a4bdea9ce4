// Seconds of a pipeline: the trainer's own schedules, played with the seconds of each virtual stage. Long runs of micro
// batches repeat themselves, so that only their beginning and end are played; a test holds the result against Play().
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "schedule/schedule.h"

namespace trireme {

// The counts that name a schedule.
struct PipelineShape {
  std::string schedule = "1f1b";
  int stages = 1;
  int chunks = 1;
  std::int64_t micro_batches = 1;
};

// Whether a schedule, registered or from a file, runs backward in two parts.
bool SplitsBackward(const std::string& schedule);

// What no order of the schedule's actions can undercut: a stage's own work for all micro batches, the fill before it
// and the drain after it. Exact for equal stages under 1F1B with free messages.
double LeastPipelineSeconds(const PipelineShape& shape, const ScheduleCosts& costs);

// Not for concurrent use: keeps the schedules that it has met.
class PipelineClock {
 public:
  // costs: by virtual stage. An Error when the counts do not suit the schedule.
  double Seconds(const PipelineShape& shape, const ScheduleCosts& costs);
  // Micro batches whose tensors a stage keeps at once, by chunk: what PlanSlots gives.
  std::vector<int> Slots(const PipelineShape& shape, int stage);

 private:
  // What a stage does, as offsets into the tables that Play fills.
  struct Step {
    std::int32_t stage;
    std::int32_t cost;     // of its seconds
    std::int32_t after;    // of the end that it waits for
    std::int32_t end;      // of its own
    std::int32_t message;  // 1: what it waits for comes from another stage
  };
  struct Track {
    std::size_t stages = 0;
    std::size_t ends = 0;
    std::vector<Step> steps;              // each behind what it waits for
    std::vector<std::vector<int>> slots;  // by stage and chunk, of kinds without a formula
  };
  using Key = std::tuple<std::string, int, int, int>;

  Track& TrackOf(const PipelineShape& shape, int micro_batches);
  static void OrderSteps(const Schedule& schedule, Track& track);
  double Play(const Track& track, const ScheduleCosts& costs);

  std::map<Key, Track> tracks_;
  std::vector<double> seconds_;  // of steps; kept, as the others, to avoid allocation
  std::vector<double> ends_;     // by virtual stage and micro batch
  std::vector<double> clocks_;   // by stage
};

// Idle share of the busiest stage with equal stages and free messages: (p-1)/(m v + p - 1) and its kin.
double BubbleShare(const PipelineShape& shape);

}  // namespace trireme
