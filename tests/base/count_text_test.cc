#include "base/count_text.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(CountText, UnitsAreDecimal) {
  EXPECT_EQ(NumberWithUnit("2k"), 2000);
  EXPECT_EQ(NumberWithUnit("1.5M"), 1.5e6);
  EXPECT_EQ(NumberWithUnit("300B"), 300e9);
  EXPECT_EQ(NumberWithUnit("15t"), 15e12);
  for (const char* const text : {"", "k", "12", "1e9", "2kk", "2 k", "2x", "two", "infk", "nanB"}) {
    EXPECT_FALSE(NumberWithUnit(text)) << text;
  }
}

TEST(CountText, WholeNumbersStayWhole) {
  EXPECT_EQ(WithoutUnit("300B"), "300000000000");
  EXPECT_EQ(WithoutUnit("1.1k"), "1100");
  EXPECT_EQ(WithoutUnit("0.0005k"), "0.5");
  EXPECT_EQ(WithoutUnit("jean-zay-k"), "jean-zay-k");
  EXPECT_EQ(WithoutUnit("2048"), "2048");
}

TEST(CountText, DigitsAreGrouped) {
  EXPECT_EQ(GroupedDigits("300000000000"), "300,000,000,000");
  EXPECT_EQ(GroupedDigits("999"), "999");
  EXPECT_EQ(GroupedDigits("-1234.5"), "-1,234.5");
}

}  // namespace
}  // namespace trireme
