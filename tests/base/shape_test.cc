#include "base/shape.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Shape, CountIsTheProductOfTheExtents) {
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).count(), 24);
  EXPECT_EQ((Shape{5, 0}).count(), 0);
  EXPECT_EQ((Shape{1 << 20, 1 << 20}).count(), std::int64_t{1} << 40);
}

TEST(Shape, EqualMeansEqualRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
}

TEST(Shape, PrintsItsExtents) {
  EXPECT_EQ(Shape{}.ToString(), "[]");
  EXPECT_EQ((Shape{2, 3}).ToString(), "[2, 3]");
}

TEST(Rounding, GoesUpToTheNextMultiple) {
  EXPECT_EQ(RoundUp(0, 256), 0);
  EXPECT_EQ(RoundUp(1, 256), 256);
  EXPECT_EQ(RoundUp(256, 256), 256);
  EXPECT_EQ(CeilDiv(7, 2), 4);
  EXPECT_EQ(CeilDiv(8, 2), 4);
}

}  // namespace
}  // namespace trireme
