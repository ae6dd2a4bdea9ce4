#include <algorithm>
#include <cassert>

#include "base/shape.h"
#include "base/wide_count.h"
#include "run/run_config.h"

namespace trireme {
namespace {

// Sizes in the ramp before `global` is reached; 0 without a ramp.
std::int64_t RampSteps(const BatchConfig& config) {
  return config.ramp_start == 0 ? 0 : (config.global - config.ramp_start) / config.ramp_increment;
}

// First sample at which `step` increments have been made.
std::int64_t StartOf(const BatchConfig& config, std::int64_t step) {
  const std::int64_t steps = RampSteps(config);
  const WideCount product = WideProduct(step, config.ramp_samples);
  return static_cast<std::int64_t>((product + static_cast<WideCount>(steps - 1)) / static_cast<WideCount>(steps));
}

// A stretch of equal batches: `steps` of `size` samples from `first` samples consumed.
struct Stretch {
  std::int64_t size = 0;
  std::int64_t first = 0;
  std::int64_t steps = 0;
};

// Calls `visit` for each stretch of the ramp from `consumed` samples on until it answers false; returns the samples
// consumed by then. All are counted from the beginning of the ramp.
template <typename Visit>
std::int64_t WalkRamp(const BatchConfig& config, std::int64_t consumed, const Visit& visit) {
  for (std::int64_t step = 0; step < RampSteps(config); ++step) {
    const std::int64_t end = StartOf(config, step + 1);
    // A step larger than a stretch may jump over the next one.
    if (consumed >= end) {
      continue;
    }
    const std::int64_t size = config.ramp_start + step * config.ramp_increment;
    const Stretch stretch{.size = size, .first = consumed, .steps = CeilDiv(end - consumed, size)};
    if (!visit(stretch)) {
      return consumed;
    }
    consumed += stretch.steps * size;
  }
  return consumed;
}

}  // namespace

std::int64_t BatchSchedule::GlobalBatchAt(std::int64_t consumed_samples) const {
  const std::int64_t steps = RampSteps(config_);
  const std::int64_t ramped = std::max<std::int64_t>(consumed_samples - ramp_origin_, 0);
  if (steps == 0 || ramped >= config_.ramp_samples) {
    return config_.global;
  }
  const auto made =
      static_cast<std::int64_t>(WideProduct(ramped, steps) / static_cast<WideCount>(config_.ramp_samples));
  return config_.ramp_start + made * config_.ramp_increment;
}

std::vector<std::int64_t> BatchSchedule::Sizes(std::int64_t from) const {
  std::vector<std::int64_t> sizes;
  WalkRamp(config_, std::max<std::int64_t>(from - ramp_origin_, 0), [&](const Stretch& stretch) {
    sizes.push_back(stretch.size);
    return true;
  });
  sizes.push_back(config_.global);
  return sizes;
}

std::int64_t BatchSchedule::SamplesAfter(std::int64_t steps, std::int64_t from) const {
  std::int64_t left = std::max<std::int64_t>(steps, 0);
  std::int64_t size = config_.global;
  const std::int64_t first = std::max<std::int64_t>(from - ramp_origin_, 0);
  const std::int64_t consumed = WalkRamp(config_, first, [&](const Stretch& stretch) {
    if (left <= stretch.steps) {
      size = stretch.size;
      return false;
    }
    left -= stretch.steps;
    return true;
  });
  return from + (consumed - first) + left * size;
}

std::int64_t BatchSchedule::StepsFor(std::int64_t samples, std::int64_t from) const {
  std::int64_t steps = 0;
  std::int64_t size = config_.global;
  const std::int64_t first = std::max<std::int64_t>(from - ramp_origin_, 0);
  const std::int64_t wanted = samples - from + first;  // as the ramp counts them
  const std::int64_t consumed = WalkRamp(config_, first, [&](const Stretch& stretch) {
    if (wanted <= stretch.first + stretch.steps * stretch.size) {
      size = stretch.size;
      return false;
    }
    steps += stretch.steps;
    return true;
  });
  return steps + CeilDiv(std::max<std::int64_t>(wanted - consumed, 0), size);
}

int MicroBatches(const ParallelLayout& layout, std::int64_t global_batch) {
  const std::int64_t samples = static_cast<std::int64_t>(layout.micro_batch) * layout.data;
  assert(global_batch % samples == 0);
  return static_cast<int>(global_batch / samples);
}

std::int64_t TotalSteps(const RunConfig& config) {
  const BatchSchedule batches(config.batch);
  if (config.train.samples > 0) {
    return batches.StepsFor(config.train.samples);
  }
  if (config.train.tokens > 0) {
    return batches.StepsFor(CeilDiv(config.train.tokens, config.model.sequence));
  }
  return config.train.steps;
}

}  // namespace trireme
