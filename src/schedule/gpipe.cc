// GPipe: all forwards, then all backwards (Huang et al. 2019). With p stages and m micro batches:
//   bubble (idle over busy):    (p - 1) / m
//   most in flight on a stage:  m
// Backwards run in the order of the forwards, so that slots free first-in-first-out as in the other schedules.
#include "schedule/kinds.h"

namespace trireme {
namespace {

std::vector<std::vector<Action>> MakeGPipe(int stages, int chunks, int micro_batches) {
  RequireChunks("gpipe", chunks, 1);
  std::vector<Action> actions;
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
    for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
      actions.push_back({.kind = kind, .micro_batch = micro_batch});
    }
  }
  return std::vector<std::vector<Action>>(static_cast<std::size_t>(stages), actions);
}

}  // namespace

ScheduleKind GPipe() {
  return {.name = "gpipe",
          .description = "all forwards, then all backwards; bubble (p-1)/m, m micro batches in flight",
          .bubble_share = FillAndDrainShare,
          .in_flight = [](int /*stages*/, int /*stage*/, int /*chunk*/, int micro_batches) { return micro_batches; },
          .make = MakeGPipe};
}

}  // namespace trireme
