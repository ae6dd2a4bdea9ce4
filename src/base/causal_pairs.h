// How many pairs of query and key causal attention has: what FLOPs of attention are counted by.
#pragma once

#include <cstdint>

namespace trireme {

// Of a sequence whose queries see themselves and the keys before them, `window` keys at most where it is above 0.
constexpr std::int64_t CausalPairs(std::int64_t sequence, std::int64_t window = 0) {
  const std::int64_t growing = window > 0 && window < sequence ? window : sequence;
  return growing * (growing + 1) / 2 + (sequence - growing) * growing;
}

}  // namespace trireme
