// Softmax cross-entropy over a vocabulary that is cut over the tensor group.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ops/operation.h"
#include "ops/tensor.h"

namespace trireme {

// One tensor rank's part of a softmax cross-entropy over columns [first_column, first_column + valid_columns) of the
// vocabulary; logits [n, columns], columns beyond valid_columns are padding and count as minus infinity.
struct CrossEntropyArgs {
  Tensor logits;
  std::int64_t first_column = 0;
  std::int64_t valid_columns = 0;
  Tensor targets;  // int32 [n]
  // fp32 [parts, 3, n], of all ranks: local maximum, local sum of exp(logit - maximum), logit of the target (0 when it
  // is another's).
  Tensor statistics;
  // Gradient only.
  Tensor weights;   // fp32 [n]: 0 masks a token out
  float scale = 1;  // gradient = scale * weight * d(loss + z_loss * logsumexp^2)
  float z_loss = 0;
  float cap = 0;  // above 0: logits were capped by SoftCap, and the gradient is that of the values before
  Tensor losses;  // fp32 [n], written: -log p(target), not weighted
};

// logits = cap * tanh(logits / cap).
template <typename T>
struct SoftCap {
  static constexpr std::string_view kName = "soft_cap";
  T logits;
  float cap = 0;

  static constexpr auto Operands() { return std::array{Use<SoftCap, T>{&SoftCap::logits, "logits", Access::kUpdate}}; }
};
void Check(const SoftCap<Tensor>& op);

}  // namespace trireme
