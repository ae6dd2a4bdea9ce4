#include <algorithm>
#include <limits>

#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// When something happened to each (virtual stage, micro batch); kNever until it is known.
class Times {
 public:
  explicit Times(const Schedule& schedule)
      : micro_batches_(static_cast<std::size_t>(schedule.micro_batches)),
        times_(static_cast<std::size_t>(schedule.virtual_stages()) * micro_batches_, kNever) {}

  double& Of(int place, int micro_batch) {
    return times_[static_cast<std::size_t>(place) * micro_batches_ + static_cast<std::size_t>(micro_batch)];
  }

 private:
  std::size_t micro_batches_;
  std::vector<double> times_;
};

bool HasMessages(const Schedule& schedule) {
  return std::any_of(schedule.actions.begin(), schedule.actions.end(), [](const std::vector<Action>& list) {
    return std::any_of(list.begin(), list.end(), [](const Action& action) { return !IsCompute(action.kind); });
  });
}

// All stages walking down their lists at once. Neighbours on one stage, and all neighbours of a schedule without
// messages, see an output when it is made; others when it was sent and the message has travelled.
class Player {
 public:
  Player(const Schedule& schedule, const ScheduleCosts& costs)
      : schedule_(schedule),
        placement_(schedule.placement()),
        costs_(costs),
        has_messages_(HasMessages(schedule)),
        forward_end_(schedule),
        backward_end_(schedule),
        activation_sent_(schedule),
        gradient_sent_(schedule),
        next_(schedule.actions.size(), 0),
        clock_(schedule.actions.size(), 0.0) {
    timeline_.stages.resize(schedule.actions.size());
    timeline_.busy.resize(schedule.actions.size(), 0.0);
  }

  Timeline Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < schedule_.stages; ++stage) {
        moved |= Advance(stage);
      }
    }
    RequireEnded();
    timeline_.seconds = *std::max_element(clock_.begin(), clock_.end());
    return std::move(timeline_);
  }

 private:
  // Runs a stage until it must wait; whether it moved.
  bool Advance(int stage) {
    const auto index = static_cast<std::size_t>(stage);
    const std::vector<Action>& list = schedule_.actions[index];
    const std::size_t before = next_[index];
    for (; next_[index] < list.size(); ++next_[index]) {
      const Action& action = list[next_[index]];
      const double ready = Ready(stage, action);
      if (ready == kNever) {
        break;
      }
      const double start = std::max(clock_[index], ready);
      const double cost = Cost(stage, action);
      clock_[index] = start + cost;
      timeline_.busy[index] += cost;
      if (IsCompute(action.kind)) {
        timeline_.stages[index].push_back({.action = action, .start = start, .end = clock_[index]});
      }
      Record(stage, action);
    }
    return next_[index] > before;
  }

  // When the input of `action` is there: kNever while what makes it has not run.
  double Ready(int stage, const Action& action) {
    const int place = placement_.VirtualStage(stage, action.chunk);
    switch (action.kind) {
      case ActionKind::kForward:
      case ActionKind::kReceiveActivation:
        return place == 0 ? 0 : Arrival(place, place - 1, action.micro_batch, forward_end_, activation_sent_);
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
      case ActionKind::kReceiveGradient:
        return place + 1 == schedule_.virtual_stages()
                   ? forward_end_.Of(place, action.micro_batch)
                   : Arrival(place, place + 1, action.micro_batch, backward_end_, gradient_sent_);
      case ActionKind::kSendActivation:
        return forward_end_.Of(place, action.micro_batch);
      case ActionKind::kBackwardWeight:
      case ActionKind::kSendGradient:
        return backward_end_.Of(place, action.micro_batch);
    }
    return kNever;
  }

  double Arrival(int place, int from, int micro_batch, Times& made, Times& sent) {
    if (placement_.IsLocal(place, from)) {
      return made.Of(from, micro_batch);
    }
    return (has_messages_ ? sent : made).Of(from, micro_batch) + costs_.message;
  }

  double Cost(int stage, const Action& action) const {
    const auto place = static_cast<std::size_t>(placement_.VirtualStage(stage, action.chunk));
    switch (action.kind) {
      case ActionKind::kForward:
        return costs_.forward[place];
      case ActionKind::kBackward:
        return costs_.backward_input[place] + costs_.backward_weight[place];
      case ActionKind::kBackwardInput:
        return costs_.backward_input[place];
      case ActionKind::kBackwardWeight:
        return costs_.backward_weight[place];
      case ActionKind::kSendActivation:
      case ActionKind::kReceiveActivation:
      case ActionKind::kSendGradient:
      case ActionKind::kReceiveGradient:
        return 0;
    }
    return 0;
  }

  void Record(int stage, const Action& action) {
    const int place = placement_.VirtualStage(stage, action.chunk);
    const double now = clock_[static_cast<std::size_t>(stage)];
    switch (action.kind) {
      case ActionKind::kForward:
        forward_end_.Of(place, action.micro_batch) = now;
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        backward_end_.Of(place, action.micro_batch) = now;
        break;
      case ActionKind::kSendActivation:
        activation_sent_.Of(place, action.micro_batch) = now;
        break;
      case ActionKind::kSendGradient:
        gradient_sent_.Of(place, action.micro_batch) = now;
        break;
      case ActionKind::kBackwardWeight:
      case ActionKind::kReceiveActivation:
      case ActionKind::kReceiveGradient:
        break;
    }
  }

  void RequireEnded() const {
    std::string waiting;
    for (std::size_t stage = 0; stage < next_.size(); ++stage) {
      const std::vector<Action>& list = schedule_.actions[stage];
      if (next_[stage] < list.size() && waiting.size() < 200) {
        waiting += fmt::format("{}stage {} at position {}, {}", waiting.empty() ? "" : "; ", stage, next_[stage],
                               ToString(list[next_[stage]]));
      }
    }
    Require(waiting.empty(), "schedule '{}' never ends: these actions wait for each other: {}", schedule_.name,
            waiting);
  }

  const Schedule& schedule_;
  StagePlacement placement_;
  const ScheduleCosts& costs_;
  bool has_messages_;
  Times forward_end_;
  Times backward_end_;
  Times activation_sent_;
  Times gradient_sent_;
  std::vector<std::size_t> next_;  // by stage: the first action not yet run
  std::vector<double> clock_;      // by stage: when it is free
  Timeline timeline_;
};

}  // namespace

ScheduleCosts UnitCosts(const Schedule& schedule) {
  const std::vector<double> ones(static_cast<std::size_t>(schedule.virtual_stages()), 1.0);
  return {.forward = ones, .backward_input = ones, .backward_weight = ones};
}

Timeline Play(const Schedule& schedule, const ScheduleCosts& costs) { return Player(schedule, costs).Run(); }

double Timeline::Bubble() const {
  const double most = busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
  return most > 0 ? (seconds - most) / most : 0;
}

}  // namespace trireme
