// The values drawn are part of what a run is: weights, batches and masks of old runs must come out again. So some are
// written down here, and the statistics of many are checked.
#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace trireme {
namespace {

constexpr int kDraws = 100'000;

TEST(Random, BitsNeverChange) {
  EXPECT_EQ(Mix64(0), 0xe220a8397b1dcdafULL);  // the first output of splitmix64 seeded with 0
  EXPECT_EQ(RandomBits(1, 2), Mix64(1 + Mix64(2)));
  EXPECT_EQ(RandomBits(0, 0), 0xa706dd2f4d197e6fULL);
  EXPECT_EQ(RandomBits(1, 0), 0x2a98f501af37e97fULL);
  EXPECT_EQ(RandomKey(1, "block.0.mlp.in.weight"), 0xe91339671b41926dULL);
  EXPECT_EQ(RandomBelow(9, 1, 1000), 260U);
  EXPECT_FLOAT_EQ(RandomUniform(42, 0), 0.993488491F);
}

TEST(Random, KeysDependOnSeedAndName) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const char* name : {"", "a", "b", "ab", "ba", "block.1.norm", "block.2.norm"}) {
      keys.insert(RandomKey(seed, name));
    }
  }
  EXPECT_EQ(keys.size(), 20U * 7U);
}

TEST(Random, UniformIsEvenOverItsRange) {
  std::array<int, 16> counts{};
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const float value = RandomUniform(42, static_cast<std::uint64_t>(i));
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    sum += value;
    ++counts[static_cast<std::size_t>(value * 16)];
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  for (const int count : counts) {
    EXPECT_NEAR(count, kDraws / 16, 5 * std::sqrt(kDraws / 16.0));
  }
}

TEST(Random, NeighbouringIndicesAndKeysAreUnrelated) {
  double by_index = 0;
  double by_key = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    by_index += (RandomUniform(3, index) - 0.5) * (RandomUniform(3, index + 1) - 0.5) / kDraws;
    by_key += (RandomUniform(3, index) - 0.5) * (RandomUniform(4, index) - 0.5) / kDraws;
  }
  EXPECT_NEAR(by_index, 0, 0.0015);  // the deviation of either sum is 1/12 over the root of the draws: 0.00026
  EXPECT_NEAR(by_key, 0, 0.0015);
}

TEST(Random, BelowReachesEveryValueEvenly) {
  std::vector<int> counts(7);
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t value = RandomBelow(9, static_cast<std::uint64_t>(i), 7);
    ASSERT_LT(value, 7U);
    ++counts[value];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, kDraws / 7.0, 5 * std::sqrt(kDraws / 7.0));
  }
  EXPECT_EQ(RandomBelow(9, 1, 1), 0U);
}

}  // namespace
}  // namespace trireme
