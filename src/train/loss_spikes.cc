#include "train/loss_spikes.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kStepsBefore = 10;
constexpr double kShareOfNew = 0.05;

}  // namespace

std::string LossSpikes::Look(std::int64_t step, double loss) {
  std::string text;
  const double limit = factor_ * mean_;
  const bool spike = factor_ > 0 && seen_ >= kStepsBefore && loss > limit;
  if (spike) {
    text = fmt::format("step {}: loss spike: {:.4f} is {:.1f} times its running mean of {:.4f}", step, loss,
                       loss / mean_, mean_);
  }
  // A spike enters the mean only up to the limit, so that the next one is still seen.
  const double counted = spike ? limit : loss;
  mean_ = seen_ < kStepsBefore ? (mean_ * seen_ + counted) / (seen_ + 1)
                               : (1 - kShareOfNew) * mean_ + kShareOfNew * counted;
  ++seen_;
  return text;
}

}  // namespace trireme
