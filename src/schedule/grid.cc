#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

constexpr int kLeastWidth = 20;

// "F3", or "F1.3" where a stage has several chunks.
std::string Label(const Schedule& schedule, const Action& action) {
  const std::string full = ToString(action);
  return schedule.chunks == 1 ? full.substr(0, 1) + full.substr(3) : full;
}

std::string Row(const Schedule& schedule, const std::vector<PlayedAction>& actions, std::size_t units,
                std::size_t cell) {
  std::vector<std::string> cells(units, ".");
  for (const PlayedAction& played : actions) {
    const auto first = static_cast<std::size_t>(std::lround(played.start));
    const auto last = static_cast<std::size_t>(std::lround(played.end));
    for (std::size_t unit = first; unit < std::min(last, units); ++unit) {
      cells[unit] = unit == first ? Label(schedule, played.action) : std::string(cell - 1, '-');
    }
  }
  std::string row;
  for (const std::string& text : cells) {
    row += text + std::string(cell - text.size(), ' ');
  }
  row.resize(row.find_last_not_of(' ') + 1);
  return row;
}

int MostInFlight(const Schedule& schedule, int stage) {
  int now = 0;
  int most = 0;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(stage)]) {
    switch (action.kind) {
      case ActionKind::kForward:
        most = std::max(most, ++now);
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardWeight:
        --now;
        break;
      case ActionKind::kBackwardInput:
      case ActionKind::kSendActivation:
      case ActionKind::kReceiveActivation:
      case ActionKind::kSendGradient:
      case ActionKind::kReceiveGradient:
        break;
    }
  }
  return most;
}

}  // namespace

std::string DrawGrid(const Schedule& schedule, int width) {
  const Timeline timeline = Play(schedule, UnitCosts(schedule));
  const Action widest{.chunk = schedule.chunks - 1, .micro_batch = schedule.micro_batches - 1};
  const std::size_t cell = Label(schedule, widest).size() + 1;
  const std::size_t margin = fmt::format("stage {} | ", schedule.stages - 1).size();
  const auto all = static_cast<std::size_t>(std::lround(timeline.seconds));
  const std::size_t room = static_cast<std::size_t>(std::max(width, kLeastWidth)) - margin;
  const std::size_t units = std::clamp<std::size_t>(room / cell, 1, all);
  std::string text;
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    const std::string name = fmt::format("stage {}", stage);
    text += name + std::string(margin - 2 - name.size(), ' ') + "| " +
            Row(schedule, timeline.stages[stage], units, cell) + "\n";
  }
  if (units < all) {
    text += fmt::format("the first {} of {} units of time\n", units, all);
  }
  text += fmt::format("{}: bubble {:.4f}; in flight by stage:", schedule.name, timeline.Bubble());
  for (int stage = 0; stage < schedule.stages; ++stage) {
    text += fmt::format(" {}", MostInFlight(schedule, stage));
  }
  return text + "\n";
}

}  // namespace trireme
