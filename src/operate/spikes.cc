#include "operate/spikes.h"

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kStepsBefore = 10;
constexpr double kShareOfNew = 0.05;

}  // namespace

bool Spikes::IsSpike(double value) const { return factor_ > 0 && seen_ >= kStepsBefore && value > factor_ * mean_; }

std::string Spikes::Check(std::int64_t step, double value) {
  std::string text;
  const bool spike = IsSpike(value);
  if (spike) {
    text = fmt::format("step {}: {} spike: {:.4f} is {:.1f} times its running mean of {:.4f}", step, name_, value,
                       value / mean_, mean_);
  }
  // A spike enters the mean only up to the limit, so that the next one is still seen.
  const double counted = spike ? factor_ * mean_ : value;
  mean_ = seen_ < kStepsBefore ? (mean_ * seen_ + counted) / (seen_ + 1)
                               : (1 - kShareOfNew) * mean_ + kShareOfNew * counted;
  ++seen_;
  return text;
}

}  // namespace trireme
