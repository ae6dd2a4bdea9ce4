// How fast the cores are now. Clocks wander, and so does what a hypervisor leaves to a guest: the same step
// takes 10 to 25 % longer in some minutes than in others. A calibration notes the seconds of one piece of work, and a
// run that begins does it again.
#pragma once

#include "comm/rank_runner.h"
#include "topology/measured_rates.h"

namespace trireme {

struct Pace {
  double seconds = 0;  // 0 where it could not be measured, which is said on stderr
  double waited = 0;   // share of the time in which the measuring threads had no core (device/core_wait.h)
};

// Median seconds of a product of 256 x 256 x 256 numbers by every core at once, of this process alone: the mean over
// its cores. Takes about 0.15 s.
Pace MeasurePace();
// The pace measured by the processes of a launch at once, each with as many threads as its rank has and as many
// processes of a machine as have cores: the mean over the threads of a machine, as one process would give it, and of
// several machines the slowest, for which a step waits. 0 where any of them could not measure. Equal on every rank.
// Collective over the world; ranks that are threads of one process wait for their first, which measures all cores.
Pace MeasurePace(RankContext& context);

// How much longer work takes now than when it was calibrated, by the pace of both: within 1/2 and 2, and 1 where the
// calibration noted none, none was measured now (0), or the difference is below what such a measurement repeats within
// (3 %).
double PaceRatio(const MeasuredRates& measured, double pace_now);

// The laws of ranks and groups when everything takes `times` as long.
MeasuredRates AtPace(MeasuredRates measured, double times);

// The laws while other processes have a share of the cores, `waited`: midway between a load that ends at once and one
// that lasts as long as the run, and an interval that holds both. Unchanged below kQuietShare.
MeasuredRates WhileBusy(MeasuredRates measured, double waited);

}  // namespace trireme
