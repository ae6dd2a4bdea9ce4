// How many pairs of query and key causal attention has: what FLOPs of attention are counted by.
#pragma once

#include <cstdint>

namespace trireme {

// Pairs of a sequence whose queries see themselves and the keys before them, `window` keys at most where it is above 0.
constexpr std::int64_t CausalPairs(std::int64_t sequence, std::int64_t window = 0) {
  const std::int64_t growing = window > 0 && window < sequence ? window : sequence;
  return growing * (growing + 1) / 2 + (sequence - growing) * growing;
}

// Sum of min(i, most) for i below `end`.
constexpr std::int64_t SumOfBounded(std::int64_t end, std::int64_t most) {
  if (end <= 0) {
    return 0;
  }
  const std::int64_t growing = end - 1 < most ? end - 1 : most;
  return growing * (growing + 1) / 2 + (end - 1 - growing) * most;
}

// Pairs of the queries at positions [first, first + count) with keys at positions below `end` alone.
constexpr std::int64_t CausalPairsBelow(std::int64_t first, std::int64_t count, std::int64_t end, std::int64_t window) {
  const std::int64_t seen = SumOfBounded(first + count + 1, end) - SumOfBounded(first + 1, end);
  const std::int64_t hidden =
      window == 0 ? 0 : SumOfBounded(first + count + 1 - window, end) - SumOfBounded(first + 1 - window, end);
  return seen - hidden;
}

// Pairs of `count` queries from position `query` on with `count` keys from position `key` on.
constexpr std::int64_t CausalPairsBetween(std::int64_t query, std::int64_t key, std::int64_t count,
                                          std::int64_t window = 0) {
  return CausalPairsBelow(query, count, key + count, window) - CausalPairsBelow(query, count, key, window);
}

}  // namespace trireme
