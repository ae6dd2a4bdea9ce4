// Activation functions of the feed-forward part.
#pragma once

#include <cstdint>

namespace trireme {

enum class ActivationKind : std::uint8_t {
  kGelu,    // tanh form; z [N, F] -> [N, F]
  kSwiGlu,  // z [N, 2F] = gate | up -> silu(gate) * up [N, F]
};

}  // namespace trireme
