#include "base/causal_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

TEST(CausalPairs, AreThoseThatCountingFinds) {
  for (std::int64_t window = 0; window < 9; ++window) {
    for (std::int64_t count = 1; count < 5; ++count) {
      for (std::int64_t query = 0; query < 12; ++query) {
        for (std::int64_t key = 0; key < 12; ++key) {
          std::int64_t pairs = 0;
          for (std::int64_t t = query; t < query + count; ++t) {
            const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(t + 1 - window, 0);
            pairs += std::max<std::int64_t>(std::min(t + 1, key + count) - std::max(key, first), 0);
          }
          EXPECT_EQ(CausalPairsBetween(query, key, count, window), pairs) << query << " " << key << " " << window;
        }
      }
    }
    for (std::int64_t sequence = 1; sequence < 20; ++sequence) {
      EXPECT_EQ(CausalPairsBelow(0, sequence, sequence, window), CausalPairs(sequence, window));
    }
  }
}

}  // namespace
}  // namespace trireme
