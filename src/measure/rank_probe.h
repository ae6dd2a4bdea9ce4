// Measures what one rank does: every operation of a training step at several sizes, as the trainer calls it, while the
// other ranks of the world do the same.
#pragma once

#include <functional>
#include <string>

#include "comm/rank_runner.h"
#include "topology/measured_rates.h"

namespace trireme {

struct ProbeOptions {
  bool quick = false;  // a few sizes and repetitions only
  // On cores: two sizes of each operation, for about 0.2 s, on slow cores 0.3. Ranks do not wait for each
  // other.
  bool brief = false;
  int units = 1;  // of the device, that work on tiles side by side
  // Told before each part; used on rank 0 only, may be missing.
  std::function<void(const std::string& what)> progress;
};

struct RankProbe {
  RankRates rates;
  double error = 0;          // root mean square of the laws' relative errors
  double product_flops = 0;  // of the fastest product, a second
  double seconds = 0;        // of all measured products together: ranks are compared by it
};

// Collective over the context's world, unless it is brief; ranks measure at the same time.
RankProbe MeasureRank(RankContext& context, DType dtype, const ProbeOptions& options);

// Median seconds of `work`, repeated often enough to be told from the clock's steps; every rank of the world repeats it
// as often.
double MedianSeconds(RankContext& context, const std::function<void()>& work, bool quick);

}  // namespace trireme
