#include "operate/spikes.h"

#include "base/error.h"

namespace trireme {
namespace {

constexpr int kStepsBefore = 10;
constexpr double kShareOfNew = 0.05;

}  // namespace

bool Spikes::IsSpike(double value) const {
  return factor_ > 0 && state_.seen >= kStepsBefore && value > factor_ * state_.mean;
}

std::string Spikes::Check(std::int64_t step, double value) {
  std::string text;
  const bool spike = IsSpike(value);
  if (spike) {
    text = fmt::format("step {}: {} spike: {:.4f} is {:.1f} times its running mean of {:.4f}", step, name_, value,
                       value / state_.mean, state_.mean);
  }
  // A spike enters the mean only up to the limit, so that the next one is still seen.
  const double counted = spike ? factor_ * state_.mean : value;
  const auto seen = static_cast<double>(state_.seen);
  state_.mean = state_.seen < kStepsBefore ? (state_.mean * seen + counted) / (seen + 1)
                                           : (1 - kShareOfNew) * state_.mean + kShareOfNew * counted;
  ++state_.seen;
  return text;
}

}  // namespace trireme
