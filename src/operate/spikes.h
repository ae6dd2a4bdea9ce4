// Watches a number of the steps (a loss, a norm) for jumps: what one rank sees, every rank sees, since these numbers
// are equal on all of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace trireme {

class Spikes {
 public:
  // A value above `factor` times the running mean is a spike; 0: none is. The first steps only make the mean. `name`
  // is for people.
  Spikes(std::string name, double factor) : name_(std::move(name)), factor_(factor) {}

  bool IsSpike(double value) const;
  // Takes the step's value into the mean. What there is to say about it; "" when nothing is.
  std::string Check(std::int64_t step, double value);

  // What the next judgement depends on, for checkpoints.
  struct State {
    double mean = 0;
    std::int64_t seen = 0;  // values in the mean
  };
  const State& state() const { return state_; }
  void Restore(const State& state) { state_ = state; }

 private:
  std::string name_;
  double factor_;
  State state_;
};

}  // namespace trireme
