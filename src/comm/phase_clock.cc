#include "comm/phase_clock.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

void Add(std::vector<NamedSeconds>& list, std::string_view name, double seconds) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const NamedSeconds& entry) { return entry.name == name; });
  if (found == list.end()) {
    list.push_back({std::string(name), seconds});
  } else {
    found->seconds += seconds;
  }
}

double Find(const std::vector<NamedSeconds>& list, std::string_view name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const NamedSeconds& entry) { return entry.name == name; });
  return found == list.end() ? 0 : found->seconds;
}

}  // namespace

double PhaseTimes::Phase(std::string_view name) const { return Find(phases, name); }
double PhaseTimes::Group(std::string_view name) const { return Find(groups, name); }
double PhaseTimes::GroupsFrom(std::string_view prefix) const {
  double seconds = 0;
  for (const auto& group : groups) {
    seconds += group.name.starts_with(prefix) ? group.seconds : 0;
  }
  return seconds;
}

void PhaseClock::Close(std::int64_t now) {
  if (entered_ > 0) {
    Add(times_.phases, phase_, static_cast<double>(now - entered_) * 1e-9);
  }
  entered_ = now;
}

void PhaseClock::Enter(std::string_view phase, std::int64_t now) {
  Close(now);
  phase_ = phase;
}

void PhaseClock::CollectiveEnded(std::string_view group, std::int64_t now) {
  if (collective_ == 0) {
    return;
  }
  const double seconds = static_cast<double>(now - std::exchange(collective_, 0)) * 1e-9;
  Add(times_.groups, group, seconds);
  if (entered_ > 0) {
    Add(times_.phases, phase_, -seconds);
  }
}

PhaseTimes PhaseClock::Take(std::int64_t now) {
  Close(now);
  return std::exchange(times_, {});
}

}  // namespace trireme
