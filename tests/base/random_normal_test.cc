#include "base/random_normal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

namespace trireme {
namespace {

constexpr int kNormals = 100'000;

// Initial weights are part of what a run is: they are the same bits with every compiler and on every device.
TEST(RandomNormal, BitsNeverChange) {
  EXPECT_FLOAT_EQ(RandomNormal(7, 0), -0.166444495F);
  std::uint32_t hash = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    hash = hash * 31 + std::bit_cast<std::uint32_t>(RandomNormal(7, i));
  }
  EXPECT_EQ(hash, 2481959757U);
}

TEST(RandomNormal, LogarithmIsThatOfTheLibrary) {
  EXPECT_EQ(PortableLog(1), 0);
  double largest = 0;
  for (std::uint32_t i = 0; i < (1U << 24U); i += 5) {
    const float x = (static_cast<float>(i) + 0.5F) / 16777216.0F;
    largest = std::max(largest, std::abs(PortableLog(x) / std::log(static_cast<double>(x)) - 1));
  }
  EXPECT_LT(largest, 1e-7);
}

TEST(RandomNormal, CosineIsThatOfTheLibrary) {
  EXPECT_EQ(CosineOfTurn(0), 1);
  EXPECT_EQ(CosineOfTurn(1U << 22U), 0);
  EXPECT_EQ(CosineOfTurn(1U << 23U), -1);
  EXPECT_EQ(CosineOfTurn(3U << 22U), 0);
  double largest = 0;
  for (std::uint32_t i = 0; i < (1U << 24U); i += 5) {
    const double angle = 2 * std::numbers::pi * i / 16777216.0;
    largest = std::max(largest, std::abs(CosineOfTurn(i) - std::cos(angle)));
  }
  EXPECT_LT(largest, 1e-7);
}

TEST(RandomNormal, HasItsMoments) {
  std::array<double, 4> moments{};
  for (int i = 0; i < kNormals; ++i) {
    const double value = RandomNormal(7, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(std::isfinite(value));
    double power = 1;
    for (double& moment : moments) {
      power *= value;
      moment += power / kNormals;
    }
  }
  EXPECT_NEAR(moments[0], 0, 0.02);
  EXPECT_NEAR(moments[1], 1, 0.03);
  EXPECT_NEAR(moments[2], 0, 0.06);
  EXPECT_NEAR(moments[3], 3, 0.15);
}

}  // namespace
}  // namespace trireme
