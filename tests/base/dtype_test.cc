#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace trireme {
namespace {

constexpr DType kAll[] = {DType::kFloat32, DType::kBFloat16,   DType::kFloat16,    DType::kInt32, DType::kInt64,
                          DType::kUInt8,   DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kUInt16};

float Rounded(float value) { return static_cast<float>(BFloat16(value)); }

TEST(DType, NamesReadBack) {
  for (const DType dtype : kAll) {
    EXPECT_EQ(ParseDType(Name(dtype)), dtype);
  }
  EXPECT_EQ(Name(DType::kBFloat16), "bf16");
}

TEST(DType, AnUnknownNameIsAnError) { EXPECT_THROW(ParseDType("fp31"), Error); }

TEST(DType, SizesAreThoseOfTheElements) {
  EXPECT_EQ(SizeOf(DType::kFloat32), 4);
  EXPECT_EQ(SizeOf(DType::kBFloat16), std::int64_t{sizeof(BFloat16)});
  EXPECT_EQ(SizeOf(DType::kInt64), 8);
  EXPECT_EQ(SizeOf(DType::kUInt8), 1);
  EXPECT_EQ(SizeOf(DType::kUInt16), 2);
}

TEST(BFloat16, KeepsEveryValueItCanHold) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float value = std::bit_cast<float>(bits << 16);
    const BFloat16 rounded(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(rounded))) << bits;
    } else {
      EXPECT_EQ(rounded.bits, bits);
    }
  }
}

TEST(BFloat16, RoundsToTheNearest) {
  EXPECT_EQ(Rounded(1.0F + 0x1p-9F), 1.0F);  // below half of the last place, which is 2^-7
  EXPECT_EQ(Rounded(1.0F + 0x1p-8F + 0x1p-20F), 1.0F + 0x1p-7F);
  EXPECT_EQ(Rounded(-1.0F - 0x1p-8F - 0x1p-20F), -1.0F - 0x1p-7F);
}

TEST(BFloat16, RoundsHalvesToEven) {
  EXPECT_EQ(Rounded(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(Rounded(1.0F + 3 * 0x1p-8F), 1.0F + 2 * 0x1p-7F);
}

TEST(BFloat16, OverflowsToInfinity) {
  EXPECT_TRUE(std::isinf(Rounded(std::numeric_limits<float>::max())));
  EXPECT_EQ(Rounded(-std::numeric_limits<float>::infinity()), -std::numeric_limits<float>::infinity());
}

TEST(BFloat16, ANotANumberNeverBecomesInfinity) {
  const float smallest_payload = std::bit_cast<float>(0x7f800001U);
  EXPECT_TRUE(std::isnan(Rounded(smallest_payload)));
}

}  // namespace
}  // namespace trireme
