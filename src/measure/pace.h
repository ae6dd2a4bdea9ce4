// How fast the cores are now. Clocks wander, and so does what a hypervisor leaves to a guest: the same step
// takes 10 to 25 % longer in some minutes than in others. A calibration notes the seconds of one piece of work, and a
// run that begins does it again.
#pragma once

#include <string>

#include "topology/measured_rates.h"

namespace trireme {

// Median seconds of a product of 256 x 256 x 256 numbers by every core at once, of this process alone; takes about
// 0.15 s.
double MeasurePace();

// How much longer work takes now than when it was calibrated, by the pace of both: within 1/2 and 2, and 1 where the
// calibration noted none or the difference is below what such a measurement repeats within (3 %).
double PaceRatio(const MeasuredRates& measured, double pace_now);

// PaceRatio of a run on `device` that is about to begin, measured now. 1 for accelerators, whose clocks a run's own
// load sets, and under a launcher: its processes have not begun to work when the first one is here.
double PaceRatioNow(const MeasuredRates& measured, const std::string& device);

// The laws of ranks and groups when everything takes `times` as long.
MeasuredRates AtPace(MeasuredRates measured, double times);

}  // namespace trireme
