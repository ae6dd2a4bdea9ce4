// Activation functions of the feed-forward part.
#pragma once

#include <cstdint>

namespace trireme {

enum class ActivationKind : std::uint8_t {
  kGelu,         // tanh form; z [N, F] -> [N, F]
  kSwiGlu,       // z [N, 2F] = gate | up -> silu(gate) * up [N, F]
  kExactGelu,    // z * Phi(z), by the error function
  kGeGlu,        // z [N, 2F] = gate | up -> gelu(gate) * up [N, F], tanh form
  kRelu,         // max(z, 0)
  kSquaredRelu,  // max(z, 0)^2
};

// Whether z has gates too.
constexpr bool IsGated(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kSwiGlu:
    case ActivationKind::kGeGlu:
      return true;
    case ActivationKind::kGelu:
    case ActivationKind::kExactGelu:
    case ActivationKind::kRelu:
    case ActivationKind::kSquaredRelu:
      return false;
  }
  return false;
}

}  // namespace trireme
