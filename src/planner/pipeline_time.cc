#include "planner/pipeline_time.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "schedule/kinds.h"

namespace trireme {
namespace {

// Beyond this many rounds of `stages` micro batches a schedule repeats itself.
constexpr int kSettled = 4;

constexpr double kNever = -1;

int Shortened(const PipelineShape& shape) {
  const int stages = shape.stages;
  const std::int64_t limit = static_cast<std::int64_t>(kSettled + 1) * stages;
  if (shape.micro_batches <= limit) {
    return static_cast<int>(shape.micro_batches);
  }
  return kSettled * stages + static_cast<int>(shape.micro_batches % stages);
}

}  // namespace

bool SplitsBackward(const std::string& schedule) {
  const ScheduleKind* kind = FindScheduleKind(schedule);
  return kind != nullptr ? kind->splits_backward : SplitsBackward(ReadSchedule(schedule));
}

double LeastPipelineSeconds(const PipelineShape& shape, const ScheduleCosts& costs) {
  const ScheduleKind* kind = FindScheduleKind(shape.schedule);
  const StagePlacement placement = PlacementOf(shape.schedule, shape.stages, shape.chunks);
  double least = 0;
  double around = 0;
  for (int stage = 0; stage < shape.stages; ++stage) {
    double work = 0;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const auto at = static_cast<std::size_t>(placement.VirtualStage(stage, chunk));
      work += costs.forward[at] + costs.backward_input[at] + costs.backward_weight[at];
    }
    least = std::max(least, static_cast<double>(shape.micro_batches) * work + around);
    if (kind != nullptr) {
      const auto at = static_cast<std::size_t>(stage);
      around += costs.forward[at] + costs.message;
      // A weight part may overlap with another stage's drain.
      around += kind->splits_backward ? 0 : costs.backward_input[at] + costs.backward_weight[at] + costs.message;
    }
  }
  return least;
}

PipelineClock::Track& PipelineClock::TrackOf(const PipelineShape& shape, int micro_batches) {
  const Key key{shape.schedule, shape.stages, shape.chunks, micro_batches};
  const auto found = tracks_.find(key);
  if (found != tracks_.end()) {
    return found->second;
  }
  // A registered kind needs neither messages nor validation here: MakeSchedule has both for those that execute it.
  const ScheduleKind* kind = FindScheduleKind(shape.schedule);
  const Schedule schedule = kind == nullptr ? MakeSchedule(shape.schedule, shape.stages, shape.chunks, micro_batches)
                                            : Schedule{.name = shape.schedule,
                                                       .stages = shape.stages,
                                                       .chunks = shape.chunks,
                                                       .micro_batches = micro_batches,
                                                       .actions = kind->make(shape.stages, shape.chunks, micro_batches),
                                                       .placement_kind = kind->placement};
  const StagePlacement placement = schedule.placement();
  Track track;
  track.micro_batches = micro_batches;
  track.stages.resize(schedule.actions.size());
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto index = static_cast<std::size_t>(stage);
    for (const Action& action : schedule.actions[index]) {
      if (IsCompute(action.kind)) {
        const int here = placement.VirtualStage(stage, action.chunk);
        const int before = action.kind == ActionKind::kForward ? here - 1 : here + 1;
        track.stages[index].push_back({.kind = static_cast<std::uint8_t>(action.kind),
                                       .after_message = placement.IsRemote(here, before),
                                       .virtual_stage = here,
                                       .micro_batch = action.micro_batch});
      }
    }
    if (kind == nullptr || kind->in_flight == nullptr) {
      track.slots.push_back(PlanSlots(schedule, stage).slots);
    }
  }
  return tracks_.emplace(key, std::move(track)).first->second;
}

double PipelineClock::Play(const Track& track, const PipelineShape& shape, const ScheduleCosts& costs) {
  const int virtual_stages = shape.stages * shape.chunks;
  const auto micro_batches = static_cast<std::size_t>(track.micro_batches);
  const auto cells = static_cast<std::size_t>(virtual_stages) * micro_batches;
  forward_.assign(cells, kNever);
  backward_.assign(cells, kNever);
  clocks_.assign(track.stages.size(), 0);
  next_.assign(track.stages.size(), 0);
  bool moved = true;
  // Forwards run up the stages and backwards down, so that sweeps in turns meet both.
  for (bool upwards = true; moved; upwards = !upwards) {
    moved = false;
    for (std::size_t step_of_sweep = 0; step_of_sweep < track.stages.size(); ++step_of_sweep) {
      const std::size_t stage = upwards ? step_of_sweep : track.stages.size() - 1 - step_of_sweep;
      const std::vector<Step>& list = track.stages[stage];
      for (std::size_t& next = next_[stage]; next < list.size(); ++next) {
        const Step& step = list[next];
        const auto at = static_cast<std::size_t>(step.virtual_stage);
        const std::size_t cell = at * micro_batches + static_cast<std::size_t>(step.micro_batch);
        const double message = step.after_message ? costs.message : 0;
        double ready = 0;
        double cost = 0;
        double* end = nullptr;
        const auto kind = static_cast<ActionKind>(step.kind);
        if (kind == ActionKind::kForward) {
          ready = at == 0 ? 0 : forward_[cell - micro_batches];
          ready = at == 0 || ready == kNever ? ready : ready + message;
          cost = costs.forward[at];
          end = &forward_[cell];
        } else if (kind == ActionKind::kBackwardWeight) {
          cost = costs.backward_weight[at];
        } else {
          const bool last = step.virtual_stage + 1 == virtual_stages;
          ready = last ? forward_[cell] : backward_[cell + micro_batches];
          ready = last || ready == kNever ? ready : ready + message;
          cost = costs.backward_input[at] + (kind == ActionKind::kBackward ? costs.backward_weight[at] : 0);
          end = &backward_[cell];
        }
        if (ready == kNever) {
          break;
        }
        clocks_[stage] = std::max(clocks_[stage], ready) + cost;
        if (end != nullptr) {
          *end = clocks_[stage];
        }
        moved = true;
      }
    }
  }
  return *std::max_element(clocks_.begin(), clocks_.end());
}

double PipelineClock::Seconds(const PipelineShape& shape, const ScheduleCosts& costs) {
  assert(static_cast<int>(costs.forward.size()) == shape.stages * shape.chunks);
  Require(shape.stages >= 1 && shape.chunks >= 1 && shape.micro_batches >= 1,
          "a pipeline needs at least one stage, chunk and micro batch, not {}, {} and {}", shape.stages, shape.chunks,
          shape.micro_batches);
  if (shape.stages == 1 && shape.chunks == 1) {
    return static_cast<double>(shape.micro_batches) *
           (costs.forward[0] + costs.backward_input[0] + costs.backward_weight[0]);
  }
  const bool from_file = FindScheduleKind(shape.schedule) == nullptr;
  const int shortened = from_file ? static_cast<int>(shape.micro_batches) : Shortened(shape);
  const double seconds = Play(TrackOf(shape, shortened), shape, costs);
  if (shortened == shape.micro_batches) {
    return seconds;
  }
  const double longer = Play(TrackOf(shape, shortened + shape.stages), shape, costs);
  const std::int64_t rounds = (shape.micro_batches - shortened) / shape.stages;
  // A stage that is slow by little shows only when the queues before it have filled, later than what was played.
  return std::max(seconds + static_cast<double>(rounds) * (longer - seconds), LeastPipelineSeconds(shape, costs));
}

std::vector<int> PipelineClock::Slots(const PipelineShape& shape, int stage) {
  const auto micro_batches = static_cast<int>(shape.micro_batches);
  const ScheduleKind* kind = FindScheduleKind(shape.schedule);
  if (kind != nullptr && kind->in_flight != nullptr) {
    std::vector<int> slots(static_cast<std::size_t>(shape.chunks));
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      slots[static_cast<std::size_t>(chunk)] = kind->in_flight(shape.stages, stage, chunk, micro_batches);
    }
    return slots;
  }
  const bool from_file = kind == nullptr;
  return TrackOf(shape, from_file ? micro_batches : Shortened(shape)).slots[static_cast<std::size_t>(stage)];
}

double BubbleShare(const PipelineShape& shape) {
  const auto micro_batches = static_cast<double>(shape.micro_batches);
  const ScheduleKind* kind = FindScheduleKind(shape.schedule);
  return kind == nullptr ? FillAndDrainShare(shape.stages, shape.chunks, micro_batches)
                         : kind->bubble_share(shape.stages, shape.chunks, micro_batches);
}

}  // namespace trireme
