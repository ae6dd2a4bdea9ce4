// What the processes of a calibration know together: whose machine is the slowest, and how much of a machine's time was
// theirs.
#pragma once

#include <vector>

#include "comm/rank_runner.h"
#include "measure/rank_probe.h"

namespace trireme {

// Cores of this machine that the ranks of the job share.
int JobCores();
// Ranks of this machine that have cores for all their threads when they work at once; at least 1.
int RanksAtOnce(const RankContext& context);

// The number of every rank, in rank order, on every rank. Collective over the world.
std::vector<double> NumbersOfRanks(RankContext& context, double number);

// Where the slowest of several ranks stands, by the seconds that each took for the same work.
struct RankSpeeds {
  int slowest = 0;
  double behind_first = 1;    // its seconds over those of rank 0
  double behind_fastest = 0;  // its seconds over the least, less 1
};
// Requires at least one.
RankSpeeds CompareRanks(const std::vector<double>& seconds);

// In place of seconds: the rank was not asked to measure.
inline constexpr double kIdleRank = -1;
// Seconds of the slowest machine: `seconds` of every rank, each on the machine that `nodes` numbers, averaged over the
// ranks of a machine that were asked. 0 where any of these has 0, which is a measurement that failed. Requires at least
// one rank, and as many nodes.
double SlowestMachine(const std::vector<double>& seconds, const std::vector<double>& nodes);

// The laws of a rank that takes `times` as long for everything.
RankRates Slowed(RankRates rates, double times);

}  // namespace trireme
