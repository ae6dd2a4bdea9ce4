#include "schedule/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/kinds.h"

namespace trireme {
namespace {

constexpr int kNoSlot = -1;

const ScheduleKind& FindKind(const std::string& name) {
  if (const ScheduleKind* kind = FindScheduleKind(name)) {
    return *kind;
  }
  std::string known;
  std::vector<std::string> names;
  for (const ScheduleKind& kind : ScheduleKinds()) {
    known += kind.name + ", ";
    names.push_back(kind.name);
  }
  Fail("schedule '{}' is unknown{}; known: {}or a file ending in {}", name, NearestMatch(name, names), known,
       kScheduleFileEnding);
}

void RequireCounts(const std::string& name, int stages, int chunks, int micro_batches) {
  Require(stages >= 1 && chunks >= 1 && micro_batches >= 1,
          "schedule '{}' needs at least one stage, chunk and micro batch, not {}, {} and {}", name, stages, chunks,
          micro_batches);
  const std::int64_t virtual_stages = static_cast<std::int64_t>(stages) * chunks;
  Require(virtual_stages <= kMaxVirtualStages && virtual_stages * micro_batches <= kMaxPasses,
          "schedule '{}' of {} stages, {} chunks and {} micro batches is too large (at most {} virtual stages and {} "
          "passes)",
          name, stages, chunks, micro_batches, kMaxVirtualStages, kMaxPasses);
}

}  // namespace

std::string ToString(const Action& action) {
  constexpr const char* kNames[] = {"F", "B", "I", "W", "SF", "RF", "SB", "RB"};
  return fmt::format("{}{}.{}", kNames[static_cast<std::size_t>(action.kind)], action.chunk, action.micro_batch);
}

bool IsCompute(ActionKind kind) { return kind <= ActionKind::kBackwardWeight; }

Schedule MakeSchedule(const std::string& name, int stages, int chunks, int micro_batches) {
  RequireCounts(name, stages, chunks, micro_batches);
  if (name.ends_with(kScheduleFileEnding)) {
    Schedule schedule = ReadSchedule(name);
    Require(schedule.stages == stages && schedule.chunks == chunks && schedule.micro_batches == micro_batches,
            "schedule file '{}' is for {} stages, {} chunks and {} micro batches, but the run has {}, {} and {}", name,
            schedule.stages, schedule.chunks, schedule.micro_batches, stages, chunks, micro_batches);
    return schedule;
  }
  const ScheduleKind& kind = FindKind(name);
  Schedule schedule{.name = name,
                    .stages = stages,
                    .chunks = chunks,
                    .micro_batches = micro_batches,
                    .actions = kind.make(stages, chunks, micro_batches),
                    .placement_kind = kind.placement};
  AddMessages(schedule);
  Validate(schedule);
  return schedule;
}

StagePlacement PlacementOf(const std::string& schedule, int stages, int chunks) {
  const bool from_file = schedule.ends_with(kScheduleFileEnding);
  return {.kind = from_file ? ReadSchedule(schedule).placement_kind : FindKind(schedule).placement,
          .stages = stages,
          .chunks = chunks};
}

StagePlacement PlacementOf(const ParallelLayout& layout) {
  return PlacementOf(layout.schedule, layout.pipeline, layout.chunks);
}

bool SplitsBackward(const Schedule& schedule) {
  return std::any_of(schedule.actions.begin(), schedule.actions.end(), [](const std::vector<Action>& list) {
    return std::any_of(list.begin(), list.end(),
                       [](const Action& action) { return action.kind == ActionKind::kBackwardInput; });
  });
}

void AddMessages(Schedule& schedule) {
  const StagePlacement placement = schedule.placement();
  for (int stage = 0; stage < schedule.stages; ++stage) {
    std::vector<Action>& list = schedule.actions[static_cast<std::size_t>(stage)];
    std::vector<Action> with_messages;
    for (const Action& action : list) {
      const int here = placement.VirtualStage(stage, action.chunk);
      const bool before = placement.IsRemote(here, here - 1);
      const bool after = placement.IsRemote(here, here + 1);
      const auto add = [&](bool wanted, ActionKind kind) {
        if (wanted) {
          with_messages.push_back({.kind = kind, .chunk = action.chunk, .micro_batch = action.micro_batch});
        }
      };
      const bool forward = action.kind == ActionKind::kForward;
      const bool backward = action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
      add(forward && before, ActionKind::kReceiveActivation);
      add(backward && after, ActionKind::kReceiveGradient);
      with_messages.push_back(action);
      add(forward && after, ActionKind::kSendActivation);
      add(backward && before, ActionKind::kSendGradient);
    }
    list = std::move(with_messages);
  }
}

SlotPlan PlanSlots(const Schedule& schedule, int stage) {
  const auto chunks = static_cast<std::size_t>(schedule.chunks);
  SlotPlan plan{.slots = std::vector<int>(chunks, 0),
                .slot_of = std::vector<std::vector<int>>(
                    chunks, std::vector<int>(static_cast<std::size_t>(schedule.micro_batches), kNoSlot))};
  const StagePlacement placement = schedule.placement();
  std::vector<std::vector<int>> free_slots(chunks);
  const auto take = [&](int chunk, int micro_batch) {
    const auto index = static_cast<std::size_t>(chunk);
    int& slot = plan.slot_of[index][static_cast<std::size_t>(micro_batch)];
    if (slot == kNoSlot) {
      if (free_slots[index].empty()) {
        free_slots[index].push_back(plan.slots[index]++);
      }
      slot = free_slots[index].back();
      free_slots[index].pop_back();
    }
  };
  for (const Action& action : schedule.actions[static_cast<std::size_t>(stage)]) {
    const int here = placement.VirtualStage(stage, action.chunk);
    if (action.kind == ActionKind::kForward || action.kind == ActionKind::kReceiveActivation) {
      take(action.chunk, action.micro_batch);
      if (action.kind == ActionKind::kForward && placement.IsLocal(here, here + 1)) {
        take(placement.ChunkOf(here + 1), action.micro_batch);
      }
    } else if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) {
      const auto chunk = static_cast<std::size_t>(action.chunk);
      free_slots[chunk].push_back(plan.slot_of[chunk][static_cast<std::size_t>(action.micro_batch)]);
    }
  }
  return plan;
}

}  // namespace trireme
