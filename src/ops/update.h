// Updates of ranges of parameters, element by element, and the two passes over a matrix that Adafactor adds.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace trireme {

// g is the gradient times gradient_scale; "weight" its fp32 master; rate = learning_rate * UpdateRange::rate.
enum class UpdateKind : std::uint8_t {
  kAdamW,      // both moments; the weight decays by rate * weight_decay apart from the gradient
  kLion,       // weight -= rate * sign(beta1 m + (1 - beta1) g), decay apart; then m = beta2 m + (1 - beta2) g
  kSgd,        // g += weight_decay * weight; m = momentum m + g; weight -= rate * (nesterov ? g + momentum m : m)
  kMomentum,   // m = momentum m + (1 - momentum) g; gradient = nesterov ? (1 - momentum) g + momentum m : m
  kRootScale,  // v = beta2 v + (1 - beta2)(g^2 + epsilon); gradient = g / sqrt(v)
  kApply,      // weight -= rate * g, decay apart; no moments
};
constexpr bool HasFirstMoment(UpdateKind kind) {
  return kind == UpdateKind::kAdamW || kind == UpdateKind::kLion || kind == UpdateKind::kSgd ||
         kind == UpdateKind::kMomentum;
}
constexpr bool HasSecondMoment(UpdateKind kind) { return kind == UpdateKind::kAdamW || kind == UpdateKind::kRootScale; }
// Otherwise the gradient is overwritten with the direction of the update.
constexpr bool ChangesWeights(UpdateKind kind) {
  return kind != UpdateKind::kMomentum && kind != UpdateKind::kRootScale;
}

// One contiguous range of parameters. Updates are made to their fp32 masters: the weights themselves or, where these
// are bf16, the floats of which they are the upper halves and `low` the lower ones (base/split_float.h); where they are
// fp16, `low` itself, of which they are the nearest halves. An update is made with fp32 moments; those in bf16 are then
// rounded at random (base/stochastic_round.h), keyed by the step. Moments that the kind does not have are not given.
struct UpdateRange {
  Tensor weight;
  Tensor low;           // uint16 for bf16 weights, fp32 for fp16 ones; not given for fp32
  Tensor first_moment;  // fp32 or bf16, both moments alike
  Tensor second_moment;
  Tensor gradient;  // fp32
  float weight_decay = 0;
  float rate = 1;            // multiplies the learning rate
  float gradient_scale = 1;  // multiplies UpdateArgs::gradient_scale
};

struct UpdateArgs {
  UpdateKind kind = UpdateKind::kAdamW;
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float momentum = 0;
  bool nesterov = false;
  std::int64_t step = 1;     // 1 for the first update
  float gradient_scale = 1;  // gradients are multiplied by it first
};

// A contiguous part of a matrix of `columns` columns: elements [first, first + values.count()) of it. `rows` and
// `column_values` hold one fp32 number for each row and column of the whole matrix.
struct MatrixPart {
  Tensor values;  // fp32
  std::int64_t first = 0;
  std::int64_t columns = 1;
  Tensor rows;
  Tensor column_values;
};

// `rows` blocks of `columns` elements, `to_stride` and `from_stride` elements apart; types are equal.
struct BlockCopy {
  Tensor to;
  Tensor from;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t to_stride = 0;
  std::int64_t from_stride = 0;
};

}  // namespace trireme
