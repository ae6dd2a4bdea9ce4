#include "base/stochastic_round.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/random_normal.h"

namespace trireme {
namespace {

float Widened(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint32_t RandomWord(std::uint64_t index) { return static_cast<std::uint32_t>(RandomBits(29, index)); }

TEST(RoundAtRandom, LeavesEveryBFloat16AsItIs) {
  for (std::uint32_t high = 0; high <= 0xffffU; ++high) {
    for (const std::uint32_t random : {0U, 0x8000U, 0xffffU}) {
      if (!std::isnan(Widened(static_cast<std::uint16_t>(high)))) {
        ASSERT_EQ(RoundAtRandom(high << 16, random), high);
      }
    }
  }
}

TEST(RoundAtRandom, TakesOneOfTheTwoNeighboursByTheLowerSixteenBits) {
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    const std::uint32_t bits = RandomWord(2 * i);
    const std::uint32_t random = RandomWord(2 * i + 1);
    if (std::isfinite(std::bit_cast<float>(bits)) && (bits & 0x7f7f0000U) != 0x7f7f0000U) {
      const bool up = (bits & 0xffffU) + (random & 0xffffU) > 0xffffU;
      ASSERT_EQ(RoundAtRandom(bits, random), (bits >> 16) + (up ? 1 : 0)) << bits << " " << random;
    }
  }
}

TEST(RoundAtRandom, KeepsWhatIsNotFiniteAndMakesNothingInfinite) {
  for (const std::uint32_t random : {0U, 1U, 0xffffU, 0xffffffffU}) {
    EXPECT_EQ(RoundAtRandom(0x7f800000U, random), 0x7f80U);
    EXPECT_EQ(RoundAtRandom(0xff800000U, random), 0xff80U);
    EXPECT_EQ(RoundAtRandom(0x7f7fffffU, random), 0x7f7fU);
    EXPECT_EQ(RoundAtRandom(0xff7f0001U, random), 0xff7fU);
    for (const std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xffffffffU, 0xff800001U}) {
      EXPECT_TRUE(std::isnan(Widened(RoundAtRandom(nan, random)))) << nan;
    }
  }
}

TEST(RoundAtRandom, TinyValuesAndZeroesKeepTheirSign) {
  EXPECT_EQ(RoundAtRandom(0x00000000U, 0xffffU), 0x0000U);
  EXPECT_EQ(RoundAtRandom(0x80000000U, 0xffffU), 0x8000U);
  EXPECT_EQ(RoundAtRandom(0x00000001U, 0xffffU), 0x0001U);
  EXPECT_EQ(RoundAtRandom(0x00000001U, 0xfffeU), 0x0000U);
  EXPECT_EQ(RoundAtRandom(0x80000001U, 0xffffU), 0x8001U);
}

// The error in units of the last bit has the variance p (1 - p), a sixth on average: five deviations of a mean of a
// million are 0.002.
TEST(RoundingBits, RoundManyValuesWithoutBias) {
  constexpr int kCount = 1'000'000;
  double errors[2] = {0, 0};
  double product = 0;
  for (int i = 0; i < kCount; ++i) {
    // As moments are: values near each other, of which the second is about the square of the first.
    const float first = 0.01F * RandomNormal(3, static_cast<std::uint64_t>(i));
    const float second = 0.05F * first * first;
    const std::uint32_t words[2] = {std::bit_cast<std::uint32_t>(first), std::bit_cast<std::uint32_t>(second)};
    const std::uint32_t random = RoundingBits(words[0], words[1], 7);
    double error[2];
    for (int which = 0; which < 2; ++which) {
      const auto rounded = static_cast<std::uint32_t>(RoundAtRandom(words[which], random >> (16 * which))) << 16;
      error[which] = (static_cast<double>(rounded) - words[which]) / 65536.0;
      errors[which] += error[which];
    }
    product += error[0] * error[1];
  }
  EXPECT_NEAR(errors[0] / kCount, 0, 0.002);
  EXPECT_NEAR(errors[1] / kCount, 0, 0.002);
  EXPECT_NEAR(product / kCount, 0, 0.001) << "both roundings of an element go the same way";
}

// An element whose bits stay: the steps alone must make the difference.
TEST(RoundingBits, RoundOneValueWithoutBiasOverSteps) {
  constexpr int kSteps = 100'000;
  for (const std::uint32_t low : {0x0001U, 0x1000U, 0x8000U, 0xf000U}) {
    for (const std::uint32_t other : {0U, 0x3c123456U}) {
      const std::uint32_t bits = 0x3f800000U | low;
      const double share = low / 65536.0;
      int up[2] = {0, 0};
      for (std::uint32_t step = 1; step <= kSteps; ++step) {
        const std::uint32_t random = RoundingBits(bits, other, step);
        up[0] += RoundAtRandom(bits, random) - 0x3f80;
        up[1] += RoundAtRandom(bits, random >> 16) - 0x3f80;
      }
      const double deviations = 5 * std::sqrt(share * (1 - share) / kSteps);
      EXPECT_NEAR(up[0] / static_cast<double>(kSteps), share, deviations);
      EXPECT_NEAR(up[1] / static_cast<double>(kSteps), share, deviations);
    }
  }
}

}  // namespace
}  // namespace trireme
