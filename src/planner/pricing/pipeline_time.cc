#include "planner/pricing/pipeline_time.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "schedule/kinds.h"

namespace trireme {
namespace {

// Beyond this many rounds of `stages` micro batches a schedule repeats itself.
constexpr int kSettled = 4;

// Seconds of a step by what it does, for each virtual stage.
enum CostKind : std::uint8_t { kForwardCost, kInputCost, kWeightCost, kBackwardCost, kCostKinds };

CostKind CostOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return kForwardCost;
    case ActionKind::kBackwardInput:
      return kInputCost;
    case ActionKind::kBackwardWeight:
      return kWeightCost;
    case ActionKind::kBackward:
    case ActionKind::kSendActivation:
    case ActionKind::kReceiveActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kReceiveGradient:
      return kBackwardCost;
  }
  return kBackwardCost;
}

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
  Track track;
  OrderSteps(schedule, track);
  if (kind == nullptr || kind->in_flight == nullptr) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      track.slots.push_back(PlanSlots(schedule, stage).slots);
    }
  }
  return tracks_.emplace(key, std::move(track)).first->second;
}

// The order does not depend on seconds. Stages take turns, so that steps next to each other seldom wait for each other.
void PipelineClock::OrderSteps(const Schedule& schedule, Track& track) {
  const StagePlacement placement = schedule.placement();
  const int virtual_stages = placement.virtual_stages();
  const int micro_batches = schedule.micro_batches;
  const int cells = virtual_stages * micro_batches;
  const int none = 2 * cells;        // an end at 0, for steps that wait for no other
  const int unread = 2 * cells + 1;  // of weight parts, for which no step waits
  std::vector<std::vector<Step>> lists(schedule.actions.size());
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (const Action& action : schedule.actions[static_cast<std::size_t>(stage)]) {
      if (!IsCompute(action.kind)) {
        continue;
      }
      const int here = placement.VirtualStage(stage, action.chunk);
      const int forward = here * micro_batches + action.micro_batch;
      Step step{.stage = stage,
                .cost = CostOf(action.kind) * virtual_stages + here,
                .after = none,
                .end = unread,
                .message = 0};
      if (action.kind == ActionKind::kForward) {
        step.after = here == 0 ? none : forward - micro_batches;
        step.end = forward;
        step.message = here > 0 && placement.IsRemote(here, here - 1) ? 1 : 0;
      } else if (action.kind != ActionKind::kBackwardWeight) {
        const bool last = here + 1 == virtual_stages;
        step.after = last ? forward : cells + forward + micro_batches;
        step.end = cells + forward;
        step.message = !last && placement.IsRemote(here, here + 1) ? 1 : 0;
      }
      lists[static_cast<std::size_t>(stage)].push_back(step);
    }
  }
  track.stages = lists.size();
  track.ends = static_cast<std::size_t>(2 * cells) + 2;
  std::vector<bool> reached(track.ends, false);
  reached[static_cast<std::size_t>(none)] = true;
  std::vector<std::size_t> next(lists.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t stage = 0; stage < lists.size(); ++stage) {
      if (next[stage] == lists[stage].size()) {
        continue;
      }
      const Step& step = lists[stage][next[stage]];
      if (reached[static_cast<std::size_t>(step.after)]) {
        reached[static_cast<std::size_t>(step.end)] = true;
        track.steps.push_back(step);
        ++next[stage];
        moved = true;
      }
    }
  }
}

double PipelineClock::Play(const Track& track, const ScheduleCosts& costs) {
  const std::size_t virtual_stages = costs.forward.size();
  seconds_.resize(kCostKinds * virtual_stages);
  for (std::size_t at = 0; at < virtual_stages; ++at) {
    seconds_[kForwardCost * virtual_stages + at] = costs.forward[at];
    seconds_[kInputCost * virtual_stages + at] = costs.backward_input[at];
    seconds_[kWeightCost * virtual_stages + at] = costs.backward_weight[at];
    seconds_[kBackwardCost * virtual_stages + at] = costs.backward_input[at] + costs.backward_weight[at];
  }
  ends_.resize(track.ends);
  ends_[track.ends - 2] = 0;
  clocks_.assign(track.stages, 0);
  const double messages[] = {0, costs.message};
  for (const Step& step : track.steps) {
    const double ready = ends_[static_cast<std::size_t>(step.after)] + messages[step.message];
    double& clock = clocks_[static_cast<std::size_t>(step.stage)];
    clock = std::max(clock, ready) + seconds_[static_cast<std::size_t>(step.cost)];
    ends_[static_cast<std::size_t>(step.end)] = clock;
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
  const double seconds = Play(TrackOf(shape, shortened), costs);
  if (shortened == shape.micro_batches) {
    return seconds;
  }
  const double longer = Play(TrackOf(shape, shortened + shape.stages), costs);
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
