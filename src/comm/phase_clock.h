// Seconds of a step by phase and, apart from these, by the group whose collectives it waited in. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct NamedSeconds {
  std::string name;
  double seconds = 0;
};

// Phases without the collectives within them; these, messages included, by group.
struct PhaseTimes {
  std::vector<NamedSeconds> phases;
  std::vector<NamedSeconds> groups;

  // 0 for a name that did not occur.
  double Phase(std::string_view name) const;
  double Group(std::string_view name) const;
  // Seconds of all groups whose names begin so.
  double GroupsFrom(std::string_view prefix) const;
};

class PhaseClock {
 public:
  // All times are nanoseconds of one clock.
  void Enter(std::string_view phase, std::int64_t now);
  void CollectiveStarted(std::int64_t now) { collective_ = now; }
  void CollectiveEnded(std::string_view group, std::int64_t now);
  // What was gathered since the last call; the phase at hand goes on from `now`.
  PhaseTimes Take(std::int64_t now);

 private:
  void Close(std::int64_t now);

  PhaseTimes times_;
  std::string phase_;
  std::int64_t entered_ = 0;     // 0: in none
  std::int64_t collective_ = 0;  // when the one at hand started; 0: in none
};

}  // namespace trireme
