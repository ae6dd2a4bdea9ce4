// Work in the background that leaves memory and disk to others half of the time: after each part it rests as long as
// the part took.
#pragma once

#include <atomic>
#include <chrono>

namespace trireme {

class Pacer {
 public:
  // `hurry` outlives this; while it is true, a caller waits for the work and there are no rests. nullptr: none at all.
  explicit Pacer(const std::atomic<bool>* hurry);

  // After each part, which should take some milliseconds.
  void Rest();

 private:
  using Clock = std::chrono::steady_clock;

  const std::atomic<bool>* hurry_;
  Clock::time_point part_;  // when it began
};

}  // namespace trireme
