#include "base/split_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/dtype.h"
#include "base/random.h"

namespace trireme {
namespace {

constexpr std::uint32_t kNan = 0x7fc00000U;

bool IsNan(std::uint32_t bits) { return (bits & 0x7fffffffU) > 0x7f800000U; }

float Upper(std::uint32_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(SplitFloat(bits).high) << 16);
}

// Whether the halves of a float make it again, and the upper one alone is the bfloat16 it must be.
bool IsSplitWell(std::uint32_t bits) {
  const FloatHalves halves = SplitFloat(bits);
  if (IsNan(bits)) {
    return JoinFloat(halves) == kNan && std::isnan(Upper(bits));
  }
  const std::uint16_t even = BFloat16(std::bit_cast<float>(bits)).bits;
  const bool tie = (bits & 0xffffU) == 0x8000U;
  return JoinFloat(halves) == bits && halves.high == (tie ? (bits >> 16) + 1 : even);
}

TEST(SplitFloat, EveryUpperHalfWithLowerOnesAroundTheTieComesBack) {
  for (std::uint32_t high = 0; high <= 0xffffU; ++high) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      const std::uint32_t bits = (high << 16) | low;
      ASSERT_TRUE(IsSplitWell(bits)) << bits;
    }
  }
}

TEST(SplitFloat, RandomFloatsComeBack) {
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(RandomBits(17, i));
    ASSERT_TRUE(IsSplitWell(bits)) << bits;
  }
}

TEST(SplitFloat, TiesGoAwayFromZero) {
  EXPECT_EQ(Upper(std::bit_cast<std::uint32_t>(1.0F + 0x1p-8F)), 1.0F + 0x1p-7F);
  EXPECT_EQ(Upper(std::bit_cast<std::uint32_t>(-1.0F - 0x1p-8F)), -1.0F - 0x1p-7F);
  EXPECT_EQ(Upper(std::bit_cast<std::uint32_t>(1.0F + 0x1p-9F)), 1.0F);
}

TEST(SplitFloat, InfinitiesDenormalsAndSignedZeroesComeBack) {
  for (const std::uint32_t bits : {0x7f800000U, 0xff800000U, 0x00000000U, 0x80000000U, 0x00000001U, 0x80007fffU,
                                   0x00008000U, 0x807fffffU, 0x7f7fffffU, 0xff7fffffU}) {
    EXPECT_TRUE(IsSplitWell(bits)) << bits;
  }
  // Finite, but its bfloat16 is not.
  EXPECT_TRUE(std::isinf(Upper(0x7f7fffffU)));
}

TEST(SplitFloat, EveryNanIsOne) {
  for (const std::uint32_t bits : {0x7fffffffU, 0xffffffffU, 0x7f800001U, 0xff800001U, kNan}) {
    EXPECT_TRUE(std::isnan(Upper(bits))) << bits;
    EXPECT_EQ(JoinFloat(SplitFloat(bits)), kNan) << bits;
  }
}

}  // namespace
}  // namespace trireme
