// Ranks that are slow but alive, found in the ledgers of a run: among ranks that do equal work (a tensor group, or a
// data group where there is no tensor group) one that others wait for nearly all of the time. In other groups somebody
// is last by the order of the pipeline. Where only a data group shows it, all stages of one pipeline are late together.
#pragma once

#include <string>
#include <vector>

#include "comm/ledger.h"

namespace trireme {

struct Straggler {
  int rank = 0;
  double share = 0;  // of the recorded time that its group waited for it
  std::string
      text;  // "rank 2 is the last of its group in 20 of 20 spans of time and costs it 31 % (12.3 ms a meeting)"
};

// The costliest first. `least_share` tells a straggler from whoever happens to be last; so does that it is the same
// rank in 17 of 20 equal spans of the recorded time, which machines that are busy with other things do not imitate.
std::vector<Straggler> FindStragglers(const std::vector<RankRecord>& ranks, double least_share);

}  // namespace trireme
