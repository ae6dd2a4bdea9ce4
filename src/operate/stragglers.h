// Ranks that are slow but alive, found in the ledgers of a run: among ranks that do equal work (a tensor group, or a
// data group where there is no tensor group) one that others wait for nearly all of the time. In other groups one
// rank is last by the order of the pipeline. Where only a data group shows it, all stages of one pipeline are late
// together.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/ledger.h"

namespace trireme {

struct Straggler {
  int rank = 0;
  double share = 0;  // of the time looked at that its group waited for it
  std::string text;  // "rank 2 is the last of its group in 20 of 20 spans and costs it 31 % (12.3 ms a meeting)"
};

// The costliest first, of the last 20 steps or two seconds, whichever is longer. A straggler costs its group at least
// `least_share` of the time and is last in 17 of 20 equal windows; machines that are busy with other programs seldom
// look like that.
std::vector<Straggler> FindStragglers(const std::vector<RankRecord>& ranks, double least_share);

// Tells a rank that is slow from one that was slow for a moment: it must be found at every look for 20 steps and six
// seconds. So a rank that slows down is named within 50 steps of a quarter of a second or more, or ten seconds, when
// there is a look every second.
class StragglerWatch {
 public:
  // Ranks to be named now, each one once. `now`: seconds of any clock that only goes forward; `step`: that ranks are
  // at.
  std::vector<Straggler> Check(double now, std::int64_t step, const std::vector<RankRecord>& ranks);

 private:
  struct Suspicion {
    double since = 0;
    std::int64_t step = 0;
  };
  std::map<int, Suspicion> suspected_;  // by rank: found at every look since
  std::set<int> named_;
};

}  // namespace trireme
