#include "run/run_schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/shape.h"

namespace trireme {
namespace {

constexpr double kEqualRates = 1e-12;  // relative
constexpr std::int64_t kBridgePart = 20;

bool SameRate(double a, double b) { return std::abs(a - b) <= kEqualRates * std::max(std::abs(a), std::abs(b)); }

bool SameRamp(const ScheduleState& a, const ScheduleState& b) {
  return a.ramp_start == b.ramp_start && a.ramp_increment == b.ramp_increment && a.ramp_samples == b.ramp_samples;
}

void RequireBatches(const RunConfig& config, const std::vector<std::int64_t>& sizes) {
  const std::int64_t unit = static_cast<std::int64_t>(config.layout.micro_batch) * config.layout.data;
  for (const std::int64_t size : sizes) {
    Require(size % unit == 0,
            "batch.ramp_up comes to a batch of {} from here on, which is not divisible by layout.micro_batch = {} x "
            "layout.data = {}; a start and an increment that are multiples of {} work",
            size, config.layout.micro_batch, config.layout.data, unit);
  }
}

}  // namespace

RunSchedule::RunSchedule(const RunConfig& config) : batch_(config.batch), optimizer_(config.optimizer) {
  if (config.train.samples > 0) {
    samples_ = config.train.samples;
  } else if (config.train.tokens > 0) {
    samples_ = CeilDiv(config.train.tokens, config.model.sequence);
  } else {
    steps_ = config.train.steps;
  }
  state_.ramp_start = batch_.ramp_start;
  state_.ramp_increment = batch_.ramp_increment;
  state_.ramp_samples = batch_.ramp_samples;
  state_.end_samples = EndSamples({});
  FollowRecipe();
}

RunSchedule::RunSchedule(const RunConfig& config, const ScheduleState& saved, const RunPosition& at,
                         const std::set<std::string>& changed, std::vector<std::string>& notes)
    : RunSchedule(config) {
  if (at.consumed_samples == 0) {
    return;
  }
  if (config.train.samples == 0 && config.train.tokens > 0) {
    // Sequences may have been shorter or longer before.
    const std::int64_t left = std::max<std::int64_t>(config.train.tokens - at.consumed_tokens, 0);
    samples_ = at.consumed_samples + CeilDiv(left, config.model.sequence);
  }
  RampOn(saved, at, notes);
  RequireBatches(config, Batches().Sizes(at.consumed_samples));
  state_.end_samples = EndSamples(at);
  if (state_.end_samples != saved.end_samples) {
    notes.push_back(
        fmt::format("the run now ends after {} samples, at step {}; the checkpoint's would have ended after {}",
                    state_.end_samples, TotalSteps(at), saved.end_samples));
  }
  if (Finished(at)) {
    return;
  }
  FollowRecipe();
  if (optimizer_.on_resume == ResumedRate::kContinue) {
    const bool from_start = std::any_of(changed.begin(), changed.end(), [](const std::string& key) {
      return key == "optimizer.schedule.kind" || key == "optimizer.schedule.warmup_samples" ||
             key == "optimizer.schedule.decay_samples";
    });
    if (!from_start) {
      MoveEnd(saved, at, notes);
    }
    Bridge(saved, at, notes);
  } else if (const double now = LearningRateAt(at.consumed_samples); !SameRate(now, saved.next_rate)) {
    notes.push_back(
        fmt::format("the learning rate is {:.4g} at once, as the recipe says; it was {:.4g} "
                    "(optimizer.schedule.on_resume = \"recipe\")",
                    now, saved.next_rate));
  }
}

void RunSchedule::RampOn(const ScheduleState& saved, const RunPosition& at, std::vector<std::string>& notes) {
  state_.ramp_origin = saved.ramp_origin;
  const bool over = saved.ramp_start == 0 || at.consumed_samples - saved.ramp_origin >= saved.ramp_samples;
  if (SameRamp(state_, saved) || state_.ramp_start == 0) {
    return;
  }
  state_.ramp_origin = over ? at.consumed_samples : saved.ramp_origin;
  notes.push_back(fmt::format("the batch ramps up from {} to {} over {} samples, counted from sample {}: {} now",
                              state_.ramp_start, batch_.global, state_.ramp_samples, state_.ramp_origin,
                              GlobalBatchAt(at.consumed_samples)));
}

void RunSchedule::MoveEnd(const ScheduleState& saved, const RunPosition& at, std::vector<std::string>& notes) {
  const std::int64_t end = state_.end_samples;
  const ScheduleState resumed = state_;
  state_ = saved;
  state_.ramp_start = resumed.ramp_start;
  state_.ramp_increment = resumed.ramp_increment;
  state_.ramp_samples = resumed.ramp_samples;
  state_.ramp_origin = resumed.ramp_origin;
  if (end == saved.end_samples) {
    return;
  }
  // The position as it stands; then one sample of it a sample, if that makes no difference here, or stretched.
  const double position = Position(at.consumed_samples);
  const double straight = position + static_cast<double>(end - at.consumed_samples);
  const double before = trireme::LearningRateAt(optimizer_, position, state_.horizon);
  const bool in_decay = !SameRate(before, trireme::LearningRateAt(optimizer_, position, straight));
  state_.anchor_samples = at.consumed_samples;
  state_.anchor_position = position;
  state_.end_samples = end;
  if (!in_decay) {
    state_.horizon = straight;
    return;
  }
  notes.push_back(
      fmt::format("the learning rate goes on at {:.4g}; what is left of its decay is spread over the {} samples left "
                  "(optimizer.schedule.on_resume = \"continue\")",
                  saved.next_rate, end - at.consumed_samples));
}

void RunSchedule::FollowRecipe() {
  state_.anchor_samples = 0;
  state_.anchor_position = 0;
  state_.horizon = static_cast<double>(state_.end_samples);
  state_.bridge_start = state_.bridge_samples = 0;
  state_.bridge_rate = 0;
}

void RunSchedule::Bridge(const ScheduleState& saved, const RunPosition& at, std::vector<std::string>& notes) {
  const std::int64_t here = at.consumed_samples;
  if (SameRate(LearningRateAt(here), saved.next_rate)) {
    return;
  }
  state_.bridge_samples = 0;
  const double now = LearningRateAt(here);
  const std::int64_t left = state_.end_samples - here;
  const std::int64_t chosen =
      optimizer_.warmup_samples > 0 ? optimizer_.warmup_samples : std::max<std::int64_t>(left / kBridgePart, 1);
  state_.bridge_start = here;
  state_.bridge_samples = std::min(optimizer_.bridge_samples > 0 ? optimizer_.bridge_samples : chosen, left);
  state_.bridge_rate = saved.next_rate;
  notes.push_back(
      fmt::format("the learning rate goes on at {:.4g} and joins the recipe's, {:.4g} here, over the next {} samples "
                  "(optimizer.schedule.on_resume = \"recipe\" would change it at once)",
                  saved.next_rate, now, state_.bridge_samples));
}

BatchSchedule RunSchedule::Batches() const { return BatchSchedule(batch_, state_.ramp_origin); }

std::int64_t RunSchedule::GlobalBatchAt(std::int64_t consumed_samples) const {
  return Batches().GlobalBatchAt(consumed_samples);
}

double RunSchedule::Position(std::int64_t consumed_samples) const {
  const auto gone = static_cast<double>(consumed_samples - state_.anchor_samples);
  const auto length = static_cast<double>(state_.end_samples - state_.anchor_samples);
  const double pace = length > 0 ? (state_.horizon - state_.anchor_position) / length : 1;
  return state_.anchor_position + gone * pace;
}

double RunSchedule::LearningRateAt(std::int64_t consumed_samples) const {
  const double rate = trireme::LearningRateAt(optimizer_, Position(consumed_samples), state_.horizon);
  const std::int64_t crossed = consumed_samples - state_.bridge_start;
  if (state_.bridge_samples == 0 || crossed >= state_.bridge_samples) {
    return rate;
  }
  const double left = 1 - static_cast<double>(crossed) / static_cast<double>(state_.bridge_samples);
  return left * state_.bridge_rate + (1 - left) * rate;
}

bool RunSchedule::Finished(const RunPosition& at) const {
  return samples_ > 0 ? at.consumed_samples >= samples_ : at.step >= steps_;
}

std::int64_t RunSchedule::TotalSteps(const RunPosition& at) const {
  return samples_ > 0 ? at.step + Batches().StepsFor(samples_, at.consumed_samples) : std::max(steps_, at.step);
}

std::int64_t RunSchedule::EndSamples(const RunPosition& at) const {
  return Batches().SamplesAfter(TotalSteps(at) - at.step, at.consumed_samples);
}

ScheduleState RunSchedule::StateAt(std::int64_t consumed_samples) const {
  ScheduleState state = state_;
  state.next_rate = LearningRateAt(consumed_samples);
  return state;
}

}  // namespace trireme
