// Zero-bubble ZB-H1: backward comes in an input part, which the previous stage waits for, and a weight part, which
// no other stage does; stage s runs its weight parts s micro batches late and fills the tail with them (Qi et al.
// 2023). With p stages, m micro batches and forward = input part = weight part = 1:
//   bubble (idle over busy):    max(p - 1, 2 p - 1 - m) / (3 m); a third of 1F1B's (p - 1) / m once m >= p
//   most in flight on stage s:  min(p, m), the most that 1F1B holds on its first stage
#include <algorithm>

#include "schedule/kinds.h"

namespace trireme {
namespace {

std::vector<Action> MakeZeroBubbleStage(int stages, int stage, int micro_batches) {
  const int warmup = std::min(stages - stage - 1, micro_batches);
  std::vector<Action> actions;
  for (int forward = 0; forward < warmup; ++forward) {
    actions.push_back({.kind = ActionKind::kForward, .micro_batch = forward});
  }
  for (int backward = 0; backward < micro_batches; ++backward) {
    if (warmup + backward < micro_batches) {
      actions.push_back({.kind = ActionKind::kForward, .micro_batch = warmup + backward});
    }
    actions.push_back({.kind = ActionKind::kBackwardInput, .micro_batch = backward});
    if (backward >= stage) {
      actions.push_back({.kind = ActionKind::kBackwardWeight, .micro_batch = backward - stage});
    }
  }
  for (int weight = std::max(micro_batches - stage, 0); weight < micro_batches; ++weight) {
    actions.push_back({.kind = ActionKind::kBackwardWeight, .micro_batch = weight});
  }
  return actions;
}

std::vector<std::vector<Action>> MakeZeroBubble(int stages, int chunks, int micro_batches) {
  RequireChunks("zero_bubble", chunks, 1);
  std::vector<std::vector<Action>> actions;
  for (int stage = 0; stage < stages; ++stage) {
    actions.push_back(MakeZeroBubbleStage(stages, stage, micro_batches));
  }
  return actions;
}

}  // namespace

ScheduleKind ZeroBubble() {
  return {.name = "zero_bubble",
          .description = "1F1B with weight parts put off to fill the bubble (ZB-H1); min(p, m) micro batches in flight",
          .splits_backward = true,
          .bubble_share = [](int stages, int /*chunks*/,
                             double micro_batches) { return FillAndDrainShare(stages, 1, 3 * micro_batches); },
          .in_flight = [](int stages, int /*stage*/, int /*chunk*/,
                          int micro_batches) { return std::min(stages, micro_batches); },
          .make = MakeZeroBubble};
}

}  // namespace trireme
