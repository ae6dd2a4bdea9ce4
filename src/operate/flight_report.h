// What the ledgers of a run say together: who waits for whom, and how it ended. Reads files only, so it
// works on runs that hang and on runs that are long dead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/ledger.h"

namespace trireme {

struct FlightReport {
  std::vector<RankRecord> ranks;            // those with a readable ledger, ascending
  std::vector<int> missing;                 // ranks of the layout without one
  std::vector<std::string> unreadable;      // why a file was left out
  std::vector<std::vector<int>> waits_for;  // by place in `ranks`: ranks that its call cannot end without
  std::vector<int> suspects;                // ranks for which others wait, or that failed first, and that wait for none
  bool deadlock = false;                    // ranks wait for each other in a ring: `suspects` are its members
  std::string headline;                     // one sentence

  const RankRecord* Find(int rank) const;
  // Highest step that a rank had begun.
  std::int64_t step() const;
};

// Reads a folder with ledgers. Nothing is in `ranks` when it holds none.
FlightReport ReadFlight(const std::string& folder);
FlightReport MakeReport(std::vector<RankRecord> ranks);

// World ranks of the group of this name that `rank` is in, in the group's order; empty for a name it does not know.
std::vector<int> GroupMembers(const ParallelLayout& layout, const std::string& group, int rank);

// "in all_reduce of 128 fp32 (sum), number 12 of group 'data'", or "in no collective".
std::string DescribePlace(const RankRecord& record);
// "1, 2 and 5"
std::string JoinRanks(const std::vector<int>& ranks);
// "0-3 7 9-4095", ascending ranks; of many stretches the first ones and how many ranks are left: "0 2 4 and 2045 more".
std::string RankRanges(const std::vector<int>& ranks);
// "07:30:12.345"
std::string ClockTime(std::int64_t nanoseconds);

}  // namespace trireme
