// Watches the loss for jumps: what one rank sees, every rank sees, since losses are equal on all of them.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

class LossSpikes {
 public:
  // A loss above `factor` times the running mean is a spike; 0: none is. The first steps only make the mean.
  explicit LossSpikes(double factor) : factor_(factor) {}

  // What there is to say about the step's loss; "" when nothing is.
  std::string Look(std::int64_t step, double loss);

 private:
  double factor_;
  double mean_ = 0;
  int seen_ = 0;
};

}  // namespace trireme
