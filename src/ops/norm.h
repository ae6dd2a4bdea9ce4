// Layer norm and RMS norm with the residual sum before them, and their backward.
#pragma once

#include <cstdint>

#include "ops/random.h"
#include "ops/tensor.h"

namespace trireme {

enum class NormKind : std::uint8_t { kLayer, kRms };

// Whether a row's mean is subtracted before it is scaled. Every back end asks this, so that they cannot differ.
constexpr bool SubtractsMean(NormKind kind) {
  switch (kind) {
    case NormKind::kLayer:
      return true;
    case NormKind::kRms:
      return false;
  }
  return false;
}

// sum = x + dropout(branch + bias); normed = norm(sum) * (gamma + gain_offset) + beta. [n, C] each.
// Without branch: sum is not written and x is normed. Without gamma: only the sum is computed.
// bias, beta [C] may be missing. statistics [2, n] fp32: mean (0 for kRms) and reciprocal deviation of each row.
struct ResidualNormArgs {
  Tensor x;
  Tensor branch;
  Tensor bias;
  Dropout dropout;
  Tensor sum;  // may be x itself
  NormKind kind = NormKind::kLayer;
  float epsilon = 1e-5F;
  float gain_offset = 0;
  Tensor gamma;
  Tensor beta;
  Tensor normed;
  Tensor statistics;
  Tensor largest;  // may be missing; of normed, for QuantizeArgs
};

// grad_x = norm's backward of grad_normed at x (+ grad_residual when given). grad_gamma, grad_beta: fp32 [C], added to.
// grad_x may be grad_normed or grad_residual itself. normed, where given, is made again as forward made it, with gamma
// and beta; it may be grad_normed itself, unless grad_x is.
struct NormBackwardArgs {
  Tensor grad_normed;
  Tensor x;
  Tensor statistics;
  NormKind kind = NormKind::kLayer;
  float gain_offset = 0;
  Tensor gamma;
  Tensor grad_residual;
  Tensor grad_x;
  Tensor grad_gamma;
  Tensor grad_beta;
  Tensor beta;     // may be missing
  Tensor normed;   // may be missing
  Tensor largest;  // may be missing; of grad_x, for QuantizeArgs
};

}  // namespace trireme
