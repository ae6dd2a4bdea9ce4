#include <optional>

#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

// What has happened to one (chunk, micro batch) of a stage.
struct Progress {
  bool received_activation = false;
  bool forward = false;
  bool sent_activation = false;
  bool received_gradient = false;
  bool input_part = false;
  bool weight_part = false;
  bool sent_gradient = false;
};

class StageChecker {
 public:
  StageChecker(const Schedule& schedule, int stage)
      : schedule_(schedule),
        placement_(schedule.placement()),
        stage_(stage),
        progress_(static_cast<std::size_t>(schedule.chunks) * static_cast<std::size_t>(schedule.micro_batches)) {}

  void Run() {
    const std::vector<Action>& list = schedule_.actions[static_cast<std::size_t>(stage_)];
    for (position_ = 0; position_ < list.size(); ++position_) {
      action_ = list[position_];
      Expect(action_.chunk >= 0 && action_.chunk < schedule_.chunks && action_.micro_batch >= 0 &&
                 action_.micro_batch < schedule_.micro_batches,
             "names a chunk or micro batch that the schedule does not have");
      Check(Of(action_.chunk, action_.micro_batch));
      CheckBuffers();
    }
    RequireComplete();
  }

 private:
  Progress& Of(int chunk, int micro_batch) {
    return progress_[static_cast<std::size_t>(chunk) * static_cast<std::size_t>(schedule_.micro_batches) +
                     static_cast<std::size_t>(micro_batch)];
  }

  // Whether the virtual stage before (-1) or after (+1) a chunk exists and sits on another stage.
  bool Remote(int chunk, int direction) const {
    const int here = placement_.VirtualStage(stage_, chunk);
    return placement_.IsRemote(here, here + direction);
  }

  void Expect(bool condition, const char* problem) const {
    Require(condition, "schedule '{}', stage {}, position {}, {}: {}", schedule_.name, stage_, position_,
            ToString(action_), problem);
  }

  void Check(Progress& seen) {
    const bool from_before = Remote(action_.chunk, -1);
    const bool from_after = Remote(action_.chunk, +1);
    const auto once = [&](bool& flag) {
      Expect(!flag, "happens a second time");
      flag = true;
    };
    switch (action_.kind) {
      case ActionKind::kReceiveActivation:
        Expect(from_before, "no other stage sends it");
        once(seen.received_activation);
        return Expect(!seen.forward, "comes after the forward that needs it");
      case ActionKind::kForward:
        Expect(!from_before || seen.received_activation, "its input has not been received");
        return once(seen.forward);
      case ActionKind::kSendActivation:
        Expect(from_after, "no other stage receives it");
        Expect(seen.forward, "comes before the forward that makes it");
        return once(seen.sent_activation);
      case ActionKind::kReceiveGradient:
        Expect(from_after, "no other stage sends it");
        once(seen.received_gradient);
        return Expect(!seen.input_part, "comes after the backward that needs it");
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        Expect(seen.forward, "comes before its forward");
        Expect(!from_after || seen.received_gradient, "its gradient has not been received");
        once(seen.input_part);
        seen.weight_part = action_.kind == ActionKind::kBackward;
        return;
      case ActionKind::kBackwardWeight:
        Expect(seen.input_part, "comes before its input part");
        return once(seen.weight_part);
      case ActionKind::kSendGradient:
        Expect(from_before, "no other stage receives it");
        Expect(seen.input_part, "comes before the backward that makes it");
        return once(seen.sent_gradient);
    }
  }

  // The runner has one buffer for outputs, and two between which gradients walk: what lies there must be sent or used
  // before the next comes.
  void CheckBuffers() {
    const int here = placement_.VirtualStage(stage_, action_.chunk);
    const Action own{.chunk = action_.chunk, .micro_batch = action_.micro_batch};
    const auto used_by = [](std::optional<Action>& waiting, const Action& action) {
      if (waiting == action) {
        waiting.reset();
      }
    };
    const auto expect_room = [&] {
      Expect(!unused_gradient_, "comes before the gradient that is there is used by its backward");
      Expect(!unsent_gradient_, "comes before the gradient of the backward before it is sent");
    };
    switch (action_.kind) {
      case ActionKind::kSendActivation:
        used_by(unsent_output_, own);
        break;
      case ActionKind::kSendGradient:
        used_by(unsent_gradient_, own);
        break;
      case ActionKind::kForward:
        Expect(!unsent_output_, "comes before the output of the forward before it is sent");
        unsent_output_ = Remote(action_.chunk, +1) ? std::optional(own) : std::nullopt;
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        used_by(unused_gradient_, own);
        expect_room();
        if (placement_.IsLocal(here, here - 1)) {
          unused_gradient_ = Action{.chunk = placement_.ChunkOf(here - 1), .micro_batch = action_.micro_batch};
        } else if (Remote(action_.chunk, -1)) {
          unsent_gradient_ = own;
        }
        break;
      case ActionKind::kReceiveGradient:
        expect_room();
        unused_gradient_ = own;
        break;
      case ActionKind::kBackwardWeight:
      case ActionKind::kReceiveActivation:
        break;
    }
  }

  void RequireComplete() {
    for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
      for (int micro_batch = 0; micro_batch < schedule_.micro_batches; ++micro_batch) {
        const Progress& seen = Of(chunk, micro_batch);
        const auto need = [&](bool condition, ActionKind kind) {
          Require(condition, "schedule '{}', stage {}, position {} (its end): {} is missing", schedule_.name, stage_,
                  position_, ToString({.kind = kind, .chunk = chunk, .micro_batch = micro_batch}));
        };
        need(seen.forward, ActionKind::kForward);
        need(seen.input_part, ActionKind::kBackward);
        need(seen.weight_part, ActionKind::kBackwardWeight);
        need(!Remote(chunk, +1) || seen.sent_activation, ActionKind::kSendActivation);
        need(!Remote(chunk, -1) || seen.sent_gradient, ActionKind::kSendGradient);
      }
    }
  }

  const Schedule& schedule_;
  StagePlacement placement_;
  int stage_;
  std::vector<Progress> progress_;
  // Chunk and micro batch of what lies in the runner's buffers.
  std::optional<Action> unsent_output_;
  std::optional<Action> unused_gradient_;
  std::optional<Action> unsent_gradient_;
  std::size_t position_ = 0;
  Action action_;
};

}  // namespace

void Validate(const Schedule& schedule) {
  Require(schedule.stages >= 1 && schedule.chunks >= 1 && schedule.micro_batches >= 1,
          "schedule '{}' needs at least one stage, chunk and micro batch, not {}, {} and {}", schedule.name,
          schedule.stages, schedule.chunks, schedule.micro_batches);
  Require(schedule.actions.size() == static_cast<std::size_t>(schedule.stages),
          "schedule '{}' has {} lists of actions for {} stages", schedule.name, schedule.actions.size(),
          schedule.stages);
  // Every stage sends and receives exactly what its neighbours exist for, so that sends and receives pair up.
  for (int stage = 0; stage < schedule.stages; ++stage) {
    StageChecker(schedule, stage).Run();
  }
  Play(schedule, UnitCosts(schedule));
}

}  // namespace trireme
