#include "base/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace trireme {
namespace {

// The value of a half by its definition, in double.
double ValueOf(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

Float16 HalfOf(std::uint16_t bits) {
  Float16 half;
  half.bits = bits;
  return half;
}

bool IsFinite(std::uint16_t bits) { return (bits & 0x7c00) != 0x7c00; }

TEST(Float16, EveryFiniteHalfIsItsValueAndComesBack) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    if (IsFinite(word)) {
      const auto value = static_cast<float>(HalfOf(word));
      ASSERT_EQ(value, ValueOf(word)) << bits;
      ASSERT_EQ(std::signbit(value), (word & 0x8000) != 0) << bits;
      ASSERT_EQ(Float16(value).bits, word) << bits;
    }
  }
}

// Between each pair of neighbours: the middle goes to the even one, its neighbours to the nearer one.
TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((ValueOf(bits) + ValueOf(next)) / 2);
    ASSERT_EQ(Float16(middle).bits, bits % 2 == 0 ? bits : next) << bits;
    ASSERT_EQ(Float16(std::nextafter(middle, 0.0F)).bits, bits) << bits;
    ASSERT_EQ(Float16(std::nextafter(middle, 1e9F)).bits, next) << bits;
    ASSERT_EQ(Float16(-middle).bits, Float16(middle).bits | 0x8000) << bits;
  }
}

TEST(Float16, BeyondTheLargestIsInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Float16(Float16::kLargest).bits, 0x7bff);
  EXPECT_EQ(Float16(std::nextafter(65520.0F, 0.0F)).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(Float16(1e30F).bits, 0x7c00);
  EXPECT_EQ(Float16(-infinity).bits, 0xfc00);
  EXPECT_EQ(static_cast<float>(HalfOf(0x7c00)), infinity);
  EXPECT_EQ(static_cast<float>(HalfOf(0xfc00)), -infinity);
}

TEST(Float16, WhatIsNoNumberStaysNone) {
  EXPECT_TRUE(std::isnan(static_cast<float>(HalfOf(0x7e00))));
  EXPECT_TRUE(std::isnan(static_cast<float>(HalfOf(0x7c01))));
  const Float16 none(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(static_cast<float>(none)));
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(std::bit_cast<float>(0x7f800001U)))));
}

TEST(Float16, TheSmallestFloatsAreZero) {
  EXPECT_EQ(Float16(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(Float16(-std::numeric_limits<float>::min()).bits, 0x8000);
  EXPECT_EQ(Float16(std::ldexp(1.0F, -25)).bits, 0);
  EXPECT_EQ(Float16(std::nextafter(std::ldexp(1.0F, -25), 1.0F)).bits, 1);
}

}  // namespace
}  // namespace trireme
