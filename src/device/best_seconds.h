// Seconds of work on a device by its own clock: what measurements and choices at the start of a run share.
#pragma once

#include <functional>

#include "device/device.h"

namespace trireme {

struct TimedRounds {
  int least = 5;       // rounds
  int calls = 1;       // of the work in a round, after which the device is waited for
  double seconds = 0;  // more rounds are made until all took so long together
};

// Seconds of one call in the fastest round, which is the one that other work disturbed least. Calls `work` once before,
// when libraries may prepare and choose; waits for the device before and after every round.
double BestSeconds(Device& device, const TimedRounds& rounds, const std::function<void()>& work);

}  // namespace trireme
