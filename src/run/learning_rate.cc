#include <algorithm>
#include <cmath>
#include <numbers>

#include "run/run_config.h"

namespace trireme {
namespace {

// From 0 at `first` to 1 at `last`.
double Progress(std::int64_t now, std::int64_t first, std::int64_t last) {
  if (now >= last) {
    return 1;
  }
  return now <= first ? 0 : static_cast<double>(now - first) / static_cast<double>(last - first);
}

// Share of the way from the whole rate (1) to the final one (0).
double Remaining(const OptimizerConfig& config, std::int64_t consumed, std::int64_t total) {
  if (config.schedule == "constant") {
    return 1;
  }
  if (config.schedule == "wsd") {
    const std::int64_t length = config.decay_samples > 0 ? config.decay_samples : total / 10;
    return 1 - Progress(consumed, std::max(total - length, config.warmup_samples), total);
  }
  const std::int64_t end = config.decay_samples > 0 ? config.decay_samples : total;
  const double progress = Progress(consumed, config.warmup_samples, end);
  return config.schedule == "linear" ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace

double LearningRateAt(const OptimizerConfig& config, std::int64_t consumed_samples, std::int64_t total_samples) {
  if (consumed_samples < config.warmup_samples) {
    // One more on both sides: the first step learns too.
    return config.learning_rate * static_cast<double>(consumed_samples + 1) /
           static_cast<double>(config.warmup_samples + 1);
  }
  const double final_fraction = config.schedule == "constant" ? 1 : config.final_fraction;
  const double remaining = Remaining(config, consumed_samples, total_samples);
  return config.learning_rate * (final_fraction + (1 - final_fraction) * remaining);
}

}  // namespace trireme
