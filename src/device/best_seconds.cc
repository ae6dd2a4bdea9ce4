#include "device/best_seconds.h"

#include <algorithm>

namespace trireme {

double BestSeconds(Device& device, const TimedRounds& rounds, const std::function<void()>& work) {
  work();
  double best = 0;
  double sum = 0;
  for (int round = 0; round < rounds.least || sum < rounds.seconds; ++round) {
    device.Synchronize();
    const double begin = device.Now();
    for (int call = 0; call < rounds.calls; ++call) {
      work();
    }
    device.Synchronize();
    const double seconds = device.Now() - begin;
    sum += seconds;
    best = round == 0 ? seconds : std::min(best, seconds);
  }
  return best / rounds.calls;
}

}  // namespace trireme
