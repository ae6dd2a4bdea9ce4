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
  struct Step {
    std::uint8_t kind;
    bool after_message;  // whether what it waits for comes from another stage
    std::int32_t virtual_stage;
    std::int32_t micro_batch;
  };
  struct Track {
    int micro_batches = 0;
    std::vector<std::vector<Step>> stages;
    std::vector<std::vector<int>> slots;  // by stage and chunk, of kinds without a formula
  };
  using Key = std::tuple<std::string, int, int, int>;

  Track& TrackOf(const PipelineShape& shape, int micro_batches);
  double Play(const Track& track, const PipelineShape& shape, const ScheduleCosts& costs);

  std::map<Key, Track> tracks_;
  std::vector<double> forward_;  // ends by virtual stage and micro batch, kept to avoid allocation
  std::vector<double> backward_;
  std::vector<double> clocks_;
  std::vector<std::size_t> next_;
};

// Idle share of the busiest stage with equal stages and free messages: (p-1)/(m v + p - 1) and its kin.
double BubbleShare(const PipelineShape& shape);

}  // namespace trireme
