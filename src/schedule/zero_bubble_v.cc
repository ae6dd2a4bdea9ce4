// Zero-bubble ZB-V: two chunks per stage, placed in a V, and a split backward (Qi et al. 2023, section 6). A micro
// batch runs up the stages through the first chunks and down through the second, its gradient the same way back; the
// stage of the embedding also holds the head. Weight parts fill what would be idle. With p stages, m micro batches and
// forward = input part = weight part = 1 for a chunk:
//   bubble (idle over busy):    (p - 1) / (6 m) for p <= 8 and m >= 2 p, half of ZB-H1's: only the first forward's way
//                               to the last stage is idle; up to 3 units of time more for p <= 16
//   most in flight on stage s:  min(2 p - 1 - s, m) in the first chunk and min(s + 1, m) in the second, each half of a
//                               stage's activations: p whole ones on every stage, what 1F1B holds on its first
//
// The order is found by simulation: at each unit of time a stage runs, of the actions whose input is there and whose
// chunk has a slot, the one that is due first. A micro batch is due 6 units after the one before, and on its way at
// each stage 2.5 units after the stage before and one unit after a turn (twice that below: whole numbers). Weight parts
// run when nothing else can.
#include <algorithm>
#include <array>
#include <optional>

#include "schedule/kinds.h"

namespace trireme {
namespace {

constexpr int kChunks = 2;
constexpr int kMicroBatchUnits = 12;
constexpr int kStageUnits = 5;
constexpr int kTurnUnits = 2;
constexpr int kNotYet = -1;

int SlotsOf(int stages, int stage, int chunk, int micro_batches) {
  return std::min(chunk == 0 ? 2 * stages - 1 - stage : stage + 1, micro_batches);
}

class Simulation {
 public:
  Simulation(int stages, int micro_batches)
      : placement_{.kind = PlacementKind::kVShaped, .stages = stages, .chunks = kChunks},
        micro_batches_(micro_batches),
        done_(static_cast<std::size_t>(stages)),
        actions_(static_cast<std::size_t>(stages)),
        forward_end_(static_cast<std::size_t>(stages) * kChunks * static_cast<std::size_t>(micro_batches), kNotYet),
        input_end_(forward_end_) {}

  std::vector<std::vector<Action>> Run() {
    const std::size_t all = std::size_t{3} * kChunks * static_cast<std::size_t>(micro_batches_);
    const auto unfinished = [all](const std::vector<Action>& list) { return list.size() < all; };
    for (int now = 0; std::any_of(actions_.begin(), actions_.end(), unfinished); ++now) {
      for (int stage = 0; stage < placement_.stages; ++stage) {
        if (const std::optional<Action> action = Next(stage, now)) {
          Take(stage, *action, now);
        }
      }
    }
    return std::move(actions_);
  }

 private:
  // How many forwards, input parts and weight parts a stage has run, by chunk.
  struct Done {
    std::array<int, kChunks> forward{};
    std::array<int, kChunks> input{};
    std::array<int, kChunks> weight{};
  };

  int& End(std::vector<int>& ends, int virtual_stage, int micro_batch) const {
    return ends[static_cast<std::size_t>(virtual_stage) * static_cast<std::size_t>(micro_batches_) +
                static_cast<std::size_t>(micro_batch)];
  }

  bool IsThere(std::vector<int>& ends, int virtual_stage, int micro_batch, int now) const {
    const int end = End(ends, virtual_stage, micro_batch);
    return end != kNotYet && end <= now;
  }

  // When an action would run if every micro batch took the same way; weight parts in the order of their input parts.
  int Due(int stage, const Action& action) const {
    const bool forward = action.kind == ActionKind::kForward;
    const int leg = forward ? action.chunk : 3 - action.chunk;
    const int along = leg % 2 == 0 ? stage : placement_.stages - 1 - stage;
    return kMicroBatchUnits * action.micro_batch + leg * (kStageUnits * (placement_.stages - 1) + kTurnUnits) +
           kStageUnits * along;
  }

  bool CanRun(int stage, const Action& action, int now) {
    const Done& done = done_[static_cast<std::size_t>(stage)];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const int here = placement_.VirtualStage(stage, action.chunk);
    if (action.micro_batch >= micro_batches_) {
      return false;
    }
    if (action.kind == ActionKind::kForward) {
      const int held = action.micro_batch - done.weight[chunk];
      return held < SlotsOf(placement_.stages, stage, action.chunk, micro_batches_) &&
             (here == 0 || IsThere(forward_end_, here - 1, action.micro_batch, now));
    }
    if (action.kind == ActionKind::kBackwardWeight) {
      return action.micro_batch < done.input[chunk];
    }
    // At the turn a gradient stays in place: it is used before the next one comes.
    const bool in_use = placement_.IsLocal(here, here - 1) && done.input[1] > done.input[0];
    const int last = placement_.virtual_stages() - 1;
    return !in_use && IsThere(forward_end_, here, action.micro_batch, now) &&
           (here == last || IsThere(input_end_, here + 1, action.micro_batch, now));
  }

  std::optional<Action> Next(int stage, int now) {
    const Done& done = done_[static_cast<std::size_t>(stage)];
    std::optional<Action> next;
    const auto offer = [&](ActionKind kind, const std::array<int, kChunks>& count) {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const Action action{.kind = kind, .chunk = chunk, .micro_batch = count[static_cast<std::size_t>(chunk)]};
        if (CanRun(stage, action, now) && (!next || Due(stage, action) < Due(stage, *next))) {
          next = action;
        }
      }
    };
    offer(ActionKind::kForward, done.forward);
    offer(ActionKind::kBackwardInput, done.input);
    if (!next) {
      offer(ActionKind::kBackwardWeight, done.weight);
    }
    return next;
  }

  void Take(int stage, const Action& action, int now) {
    Done& done = done_[static_cast<std::size_t>(stage)];
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const int here = placement_.VirtualStage(stage, action.chunk);
    actions_[static_cast<std::size_t>(stage)].push_back(action);
    switch (action.kind) {
      case ActionKind::kForward:
        ++done.forward[chunk];
        End(forward_end_, here, action.micro_batch) = now + 1;
        break;
      case ActionKind::kBackwardInput:
        ++done.input[chunk];
        End(input_end_, here, action.micro_batch) = now + 1;
        break;
      case ActionKind::kBackwardWeight:
        ++done.weight[chunk];
        break;
      case ActionKind::kBackward:
      case ActionKind::kSendActivation:
      case ActionKind::kReceiveActivation:
      case ActionKind::kSendGradient:
      case ActionKind::kReceiveGradient:
        break;
    }
  }

  StagePlacement placement_;
  int micro_batches_;
  std::vector<Done> done_;
  std::vector<std::vector<Action>> actions_;
  std::vector<int> forward_end_;  // by virtual stage and micro batch
  std::vector<int> input_end_;
};

std::vector<std::vector<Action>> MakeZeroBubbleV(int stages, int chunks, int micro_batches) {
  RequireChunks("zero_bubble_v", chunks, kChunks);
  return Simulation(stages, micro_batches).Run();
}

}  // namespace

ScheduleKind ZeroBubbleV() {
  return {.name = "zero_bubble_v",
          .description =
              "two chunks per stage in a V, weight parts fill the bubble (ZB-V); bubble (p-1)/(6m), p "
              "micro batches in flight",
          .splits_backward = true,
          .least_chunks = kChunks,
          .most_chunks = kChunks,
          .placement = PlacementKind::kVShaped,
          .bubble_share = [](int stages, int /*chunks*/,
                             double micro_batches) { return FillAndDrainShare(stages, 1, 6 * micro_batches); },
          .in_flight = SlotsOf,
          .make = MakeZeroBubbleV};
}

}  // namespace trireme
