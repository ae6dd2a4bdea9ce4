#include "train/loss_scaler.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

LossScaler::LossScaler(const TrainConfig& config)
    : dynamic_(config.dtype == "fp16" && config.loss_scale == 0),
      least_(config.min_loss_scale),
      growth_(config.loss_scale_growth),
      backoff_(config.loss_scale_backoff),
      window_(config.loss_scale_window),
      hysteresis_(config.hysteresis),
      state_{.scale = config.dtype != "fp16" ? 1
                      : dynamic_             ? config.initial_loss_scale
                                             : config.loss_scale,
             .left = config.hysteresis} {}

void LossScaler::Update(std::int64_t step, bool overflowed) {
  if (!dynamic_) {
    return;
  }
  if (!overflowed) {
    if (++state_.good_steps == window_) {
      state_.good_steps = 0;
      state_.left = hysteresis_;
      state_.scale *= growth_;
    }
    return;
  }
  state_.good_steps = 0;
  state_.left = std::max(state_.left - 1, 0);
  if (state_.left > 0) {
    return;
  }
  Require(
      state_.scale > least_,
      "step {}: gradients in fp16 are not finite at a loss scale of {:g}, and train.min_loss_scale = {:g} allows no "
      "lower one: the training diverges (lower optimizer.learning_rate, or go back to an earlier checkpoint), or "
      "fp16 is too narrow for this model (train.dtype = \"bf16\" needs no loss scale)",
      step, state_.scale, least_);
  state_.scale = std::max(state_.scale * backoff_, least_);
}

void LossScaler::Restore(const LossScaleState& saved) {
  if (!dynamic_ || saved.scale == 0) {
    return;
  }
  Require(
      saved.scale > 0 && saved.good_steps >= 0 && saved.left >= 0,
      "a loss scale of {:g} after {} good steps, {} overflows before it is lowered: no such state can be gone on from",
      saved.scale, saved.good_steps, saved.left);
  // A changed recipe may have a shorter window or hysteresis.
  state_ = {.scale = saved.scale,
            .good_steps = std::min(saved.good_steps, window_ - 1),
            .left = std::min(saved.left, hysteresis_)};
}

}  // namespace trireme
