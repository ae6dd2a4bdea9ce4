// The simulated time of one rank: its host's clock and one for each stream, in seconds. The host issues operations and
// goes on; a stream begins one when it was issued and the one before it has ended.
#pragma once

#include <algorithm>
#include <array>

#include "device/device.h"

namespace trireme {

class PacedClock {
 public:
  double host() const { return host_; }
  double stream(int stream) const { return streams_[static_cast<std::size_t>(stream)]; }
  int current() const { return current_; }
  void set_current(int stream) { current_ = stream; }

  // The host spends `issue` on the next operation. Returns when the current stream could begin it.
  double Issue(double issue) {
    host_ += issue;
    return std::max(host_, stream(current_));
  }
  void Operate(double issue, double seconds) {
    const double begin = Issue(issue);
    streams_[static_cast<std::size_t>(current_)] = begin + seconds;
  }
  void StreamWaits(int stream, double until) {
    double& time = streams_[static_cast<std::size_t>(stream)];
    time = std::max(time, until);
  }
  void StreamWaits(double until) { StreamWaits(current_, until); }
  void HostWaits(double until) { host_ = std::max(host_, until); }
  void HostWaitsForAll() { HostWaits(*std::max_element(streams_.begin(), streams_.end())); }

 private:
  double host_ = 0;
  std::array<double, kStreams> streams_{};
  int current_ = kComputeStream;
};

}  // namespace trireme
