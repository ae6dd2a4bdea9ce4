// The loss scale of fp16 training: gradients are those of scale * loss, so that small ones are not rounded to zero, and
// are divided by it before they are used. The rule is Megatron-LM's and DeepSpeed's: an overflow lowers the scale once
// `hysteresis` of them have come, and so does each one after that; a window of steps without one raises it and makes
// the hysteresis full again. An overflow that would lower the scale below its minimum ends the run.
//
// A function of the recipe and of the steps' outcomes alone, which are equal on all ranks, and so is the scale.
#pragma once

#include <cstdint>

#include "run/run_config.h"

namespace trireme {

// What the next step's scale depends on.
struct LossScaleState {
  double scale = 0;             // 0: none was saved
  std::int64_t good_steps = 0;  // since the last overflow or growth
  int left = 0;                 // overflows until the scale is lowered
};

class LossScaler {
 public:
  // 1 and constant unless train.dtype is fp16; constant where train.loss_scale says it.
  explicit LossScaler(const TrainConfig& config);

  double scale() const { return state_.scale; }
  bool dynamic() const { return dynamic_; }

  // After a step with this scale. An Error when the scale would pass its minimum.
  void Update(std::int64_t step, bool overflowed);

  const LossScaleState& state() const { return state_; }
  // Goes on from a state that was saved; a constant scale stays what the recipe says.
  void Restore(const LossScaleState& saved);

 private:
  bool dynamic_;
  double least_;
  double growth_;
  double backoff_;
  std::int64_t window_;
  int hysteresis_;
  LossScaleState state_;
};

}  // namespace trireme
