// The AdamW update of a range of parameters.
#pragma once

#include <cstdint>

#include "device/tensor.h"

namespace trireme {

// One contiguous range of parameters. Updates are made to their fp32 masters: the weights themselves or, where these
// are bf16, the floats of which they are the upper halves and `low` the lower ones (base/split_float.h). An update is
// made with fp32 moments; those in bf16 are then rounded at random (base/stochastic_round.h), keyed by the step.
struct AdamWRange {
  Tensor weight;
  Tensor low;           // uint16; given for bf16 weights alone
  Tensor first_moment;  // fp32 or bf16, both moments alike
  Tensor second_moment;
  Tensor gradient;  // fp32
  float weight_decay = 0;
};

struct AdamWArgs {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  std::int64_t step = 1;     // 1 for the first update
  float gradient_scale = 1;  // gradients are multiplied by it first
};

}  // namespace trireme
