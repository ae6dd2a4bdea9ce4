// Views of a tensor's memory.
#include "ops/tensor.h"

#include <gtest/gtest.h>

#include <array>

namespace trireme {
namespace {

TEST(Tensor, RowsAndRangesStartAtTheirElements) {
  std::array<float, 12> memory{};
  const Tensor matrix{memory.data(), DType::kFloat32, {3, 4}};
  const Tensor rows = matrix.Rows(1, 2);
  EXPECT_EQ(rows.data, memory.data() + 4);
  EXPECT_EQ(rows.shape, (Shape{2, 4}));
  EXPECT_EQ(rows.bytes(), 32);
  const Tensor range = matrix.Range(5, 3);
  EXPECT_EQ(range.data, memory.data() + 5);
  EXPECT_EQ(range.shape, Shape{3});
  const Tensor flat = matrix.Reshaped({12});
  EXPECT_EQ(flat.data, memory.data());
  EXPECT_EQ(flat.count(), 12);
}

TEST(Tensor, OneThatIsNotGivenHasNoElements) {
  const Tensor none;
  EXPECT_FALSE(none.given());
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.bytes(), 0);
}

}  // namespace
}  // namespace trireme
