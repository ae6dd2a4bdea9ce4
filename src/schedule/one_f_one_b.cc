// 1F1B: after a short warm-up each stage alternates one forward and one backward (PipeDream-Flush, Narayanan et al.
// 2021). With p stages and m micro batches:
//   bubble (idle over busy):      (p - 1) / m
//   most in flight on stage s:    min(p - s, m)
#include <algorithm>

#include "schedule/kinds.h"

namespace trireme {
namespace {

std::vector<Action> MakeOneForwardOneBackwardStage(int warmup, int micro_batches) {
  std::vector<Action> actions;
  for (int forward = 0; forward < warmup; ++forward) {
    actions.push_back({.kind = ActionKind::kForward, .micro_batch = forward});
  }
  for (int backward = 0; backward < micro_batches; ++backward) {
    if (warmup + backward < micro_batches) {
      actions.push_back({.kind = ActionKind::kForward, .micro_batch = warmup + backward});
    }
    actions.push_back({.kind = ActionKind::kBackward, .micro_batch = backward});
  }
  return actions;
}

std::vector<std::vector<Action>> MakeOneForwardOneBackward(int stages, int chunks, int micro_batches) {
  RequireChunks("1f1b", chunks, 1);
  std::vector<std::vector<Action>> actions;
  for (int stage = 0; stage < stages; ++stage) {
    actions.push_back(MakeOneForwardOneBackwardStage(std::min(stages - stage - 1, micro_batches), micro_batches));
  }
  return actions;
}

}  // namespace

ScheduleKind OneForwardOneBackward() {
  return {.name = "1f1b",
          .description = "one forward, one backward; bubble (p-1)/m, min(p-s, m) micro batches in flight on stage s",
          .bubble_share = FillAndDrainShare,
          .in_flight = [](int stages, int stage, int /*chunk*/,
                          int micro_batches) { return std::min(stages - stage, micro_batches); },
          .make = MakeOneForwardOneBackward};
}

}  // namespace trireme
