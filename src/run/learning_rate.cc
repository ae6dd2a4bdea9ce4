#include <algorithm>
#include <cmath>
#include <numbers>

#include "run/run_config.h"

namespace trireme {
namespace {

// From 0 at `first` to 1 at `last`.
double Progress(double now, double first, double last) {
  if (now >= last) {
    return 1;
  }
  return now <= first ? 0 : (now - first) / (last - first);
}

// Share of the way from the whole rate (1) to the final one (0).
double Remaining(const OptimizerConfig& config, double position, double horizon) {
  const auto warmup = static_cast<double>(config.warmup_samples);
  const auto decay = static_cast<double>(config.decay_samples);
  const double progress = Progress(position, warmup, decay > 0 ? decay : horizon);
  switch (config.schedule) {
    case RateSchedule::kConstant:
      return 1;
    case RateSchedule::kWarmupStableDecay: {
      const double length = decay > 0 ? decay : std::floor(horizon / 10);
      return 1 - Progress(position, std::max(horizon - length, warmup), horizon);
    }
    case RateSchedule::kLinear:
      return 1 - progress;
    case RateSchedule::kCosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  return 1;
}

}  // namespace

double LearningRateAt(const OptimizerConfig& config, double position, double horizon) {
  const auto warmup = static_cast<double>(config.warmup_samples);
  if (position < warmup) {
    // One more on both sides: the first step learns too.
    return config.learning_rate * (position + 1) / (warmup + 1);
  }
  const double final_fraction = config.schedule == RateSchedule::kConstant ? 1 : config.final_fraction;
  const double remaining = Remaining(config, position, horizon);
  return config.learning_rate * (final_fraction + (1 - final_fraction) * remaining);
}

}  // namespace trireme
