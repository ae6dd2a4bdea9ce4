#include "operate/number_watch.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "train/state_checks.h"

namespace trireme {
namespace {

// Steps that may fail again after going back before the fault counts as lasting.
constexpr int kMostTimesBack = 3;

}  // namespace

bool OnlyOverflowed(const StepResult& result) { return result.overflowed && std::isfinite(result.loss); }

NumberWatch::NumberWatch(const RunConfig& config, Trainer& trainer, TrainingObserver& observer)
    : config_(config.train),
      trainer_(trainer),
      observer_(observer),
      losses_("loss", config.train.loss_spike),
      norms_("gradient norm", config.train.norm_spike) {
  if (config_.rerun) {
    trainer_.set_suspicion([this](const StepResult& result) {
      return (result.skipped && !trainer_.loss_scaler().dynamic()) || IsSpike(result);
    });
  }
  if (config_.on_spike == SpikeAction::kSkip) {
    trainer_.set_veto([this](const StepResult& result) { return IsSpike(result); });
  }
}

bool NumberWatch::IsSpike(const StepResult& result) const {
  return losses_.IsSpike(result.loss) || norms_.IsSpike(result.gradient_norm);
}

void NumberWatch::Look(const StepResult& result) {
  Require(result.verdict.cause != Cause::kLasting, "{}", result.verdict.text);
  if (!result.verdict.text.empty()) {
    observer_.Note(result.verdict.text);
  }
  if (result.without_targets) {
    observer_.Note(fmt::format("step {}: skipped, as no token of its batch is a target: no update", result.step));
  } else if (result.passed_over) {
    observer_.Note(fmt::format("step {}: skipped, as train.skip_steps says", result.step));
  } else if (OnlyOverflowed(result)) {
    observer_.Note(
        fmt::format("step {}: a gradient overflowed fp16 at a loss scale of {:g}: no update; the scale is "
                    "{:g} from now on",
                    result.step, result.loss_scale, trainer_.loss_scaler().scale()));
  } else if (result.skipped) {
    LookAtNonFinite(result);
  } else {
    LookForSpikes(result);
  }
  if (config_.replica_check_every > 0 && result.step % config_.replica_check_every == 0) {
    CompareReplicas(trainer_.parts(), trainer_.progress().step);
  }
}

void NumberWatch::LookAtNonFinite(const StepResult& result) {
  const std::string where = NameNonFinite(trainer_.parts());
  Require(config_.on_nonfinite != NonFiniteAction::kStop, "step {}: not finite: {} (train.on_nonfinite = \"stop\")",
          result.step, where);
  observer_.Note(fmt::format("step {}: not finite: {}", result.step, where));
  going_back_ = config_.on_nonfinite == NonFiniteAction::kRollback;
  Require(!going_back_ || times_back_ < kMostTimesBack,
          "step {} is not finite after going back {} times: the fault is lasting: {}", result.step, times_back_, where);
}

void NumberWatch::LookForSpikes(const StepResult& result) {
  bool spiked = false;
  for (const std::string& spike :
       {losses_.Check(result.step, result.loss), norms_.Check(result.step, result.gradient_norm)}) {
    if (!spike.empty()) {
      observer_.Note(spike);
      spiked = true;
    }
  }
  if (!spiked) {
    return;
  }
  if (config_.on_spike == SpikeAction::kSkip) {  // the trainer has refused the update
    observer_.Note(fmt::format("step {}: no update (train.on_spike = \"skip\")", result.step));
  } else if (config_.on_spike == SpikeAction::kLower) {
    set_rate_factor(rate_factor_ / 2);
    observer_.Note(
        fmt::format("step {}: the learning rate is {:g} of the schedule's from now on "
                    "(train.on_spike = \"lower\")",
                    result.step, rate_factor_));
  } else if (config_.on_spike == SpikeAction::kRollback) {
    going_back_ = true;
    spike_step_ = result.step;
  }
}

bool NumberWatch::MustGoBack(std::int64_t step) {
  if (!going_back_) {
    times_back_ = step > failed_step_ ? 0 : times_back_;
    return false;
  }
  going_back_ = false;
  failed_step_ = step;
  ++times_back_;
  return true;
}

void NumberWatch::WentBack() {
  if (spike_step_ > 0) {
    trainer_.SkipStep(spike_step_);
    spike_step_ = 0;
  }
  observer_.Note(fmt::format("went back to step {} ({} of {})", trainer_.progress().step, times_back_, kMostTimesBack));
}

NumberMemory NumberWatch::memory() const {
  return {.loss = losses_.state(),
          .norm = norms_.state(),
          .rate_factor = rate_factor_,
          .passed_steps = trainer_.passed_steps()};
}

void NumberWatch::Restore(const NumberMemory& memory) {
  losses_.Restore(memory.loss);
  norms_.Restore(memory.norm);
  set_rate_factor(memory.rate_factor);
  for (const std::int64_t step : memory.passed_steps) {
    trainer_.SkipStep(step);
  }
}

void NumberWatch::set_rate_factor(double factor) {
  rate_factor_ = factor;
  trainer_.set_rate_factor(factor);
}

}  // namespace trireme
