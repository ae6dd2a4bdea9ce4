// Activation functions of the feed-forward part, and their backward.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ops/checks.h"
#include "ops/operation.h"
#include "ops/tensor.h"

namespace trireme {

enum class ActivationKind : std::uint8_t {
  kGelu,         // tanh form; z [N, F] -> [N, F]
  kSwiGlu,       // z [N, 2F] = gate | up -> silu(gate) * up [N, F]
  kExactGelu,    // z * Phi(z), by the error function
  kGeGlu,        // z [N, 2F] = gate | up -> gelu(gate) * up [N, F], tanh form
  kRelu,         // max(z, 0)
  kSquaredRelu,  // max(z, 0)^2
  kSilu,         // z * sigmoid(z)
  kReGlu,        // z [N, 2F] = gate | up -> max(gate, 0) * up [N, F]
  kExactGeGlu,   // likewise with gelu(gate) by the error function
};

// Whether z has gates too.
constexpr bool IsGated(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kSwiGlu:
    case ActivationKind::kGeGlu:
    case ActivationKind::kReGlu:
    case ActivationKind::kExactGeGlu:
      return true;
    case ActivationKind::kGelu:
    case ActivationKind::kExactGelu:
    case ActivationKind::kRelu:
    case ActivationKind::kSquaredRelu:
    case ActivationKind::kSilu:
      return false;
  }
  return false;
}

// to = the function of `from`. largest, where given: of what is written, for QuantizeArgs.
template <typename T>
struct ActivationForward {
  static constexpr std::string_view kName = "activation";
  ActivationKind kind = ActivationKind::kGelu;
  T from;
  T to;  // may be `from`, unless the activation is gated
  T largest = {};

  static constexpr auto Operands() {
    using Of = Use<ActivationForward, T>;
    return std::array{Of{&ActivationForward::from, "from"}, Of{&ActivationForward::to, "to", Access::kWrite},
                      Of{&ActivationForward::largest, "largest", Access::kWrite, Owner::kBuffer, 0}};
  }
};
inline void Check(const ActivationForward<Tensor>& op) {
  RequireMatrix({"ActivationForward", "to", op.to});
  RequireWorkingType({"ActivationForward", "to", op.to});
  const std::int64_t factor = IsGated(op.kind) ? 2 : 1;
  RequireLike({"ActivationForward", "from", op.from}, {op.to.shape[0], factor * op.to.shape[1]}, op.to.dtype);
  RequireLargest("ActivationForward", op.largest);
}

// grad_from = the function's backward of grad_out at `from`.
template <typename T>
struct ActivationBackward {
  static constexpr std::string_view kName = "activation_backward";
  ActivationKind kind = ActivationKind::kGelu;
  T grad_out;
  T from;
  T grad_from;  // may be `from`
  T largest = {};

  static constexpr auto Operands() {
    using Of = Use<ActivationBackward, T>;
    return std::array{Of{&ActivationBackward::grad_out, "grad_out"}, Of{&ActivationBackward::from, "from"},
                      Of{&ActivationBackward::grad_from, "grad_from", Access::kWrite},
                      Of{&ActivationBackward::largest, "largest", Access::kWrite, Owner::kBuffer, 0}};
  }
};
inline void Check(const ActivationBackward<Tensor>& op) {
  RequireMatrix({"ActivationBackward", "grad_out", op.grad_out});
  RequireWorkingType({"ActivationBackward", "grad_out", op.grad_out});
  const std::int64_t factor = IsGated(op.kind) ? 2 : 1;
  const Shape shape{op.grad_out.shape[0], factor * op.grad_out.shape[1]};
  RequireLike({"ActivationBackward", "from", op.from}, shape, op.grad_out.dtype);
  RequireLike({"ActivationBackward", "grad_from", op.grad_from}, shape, op.grad_out.dtype);
  RequireLargest("ActivationBackward", op.largest);
}

}  // namespace trireme
