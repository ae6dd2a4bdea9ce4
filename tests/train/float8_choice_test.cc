#include "train/float8_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TEST(Float8Products, AreReadAndWrittenByName) {
  EXPECT_EQ(ParseFloat8Products("auto"), kAllLinears);
  EXPECT_EQ(ParseFloat8Products("ffn_out,qkv"), SetOf(BlockLinear::kQkv) | SetOf(BlockLinear::kFfnOut));
  for (int set = 0; set <= kAllLinears; ++set) {
    EXPECT_EQ(ParseFloat8Products(Float8ProductsText(static_cast<LinearSet>(set))), set);
  }
  for (const char* wrong : {"", "qkv,", "qkv, ffn_in", "head"}) {
    EXPECT_THAT(test::MessageOf([&] { ParseFloat8Products(wrong); }),
                HasSubstr("no product of a block; give auto, all, none"));
  }
}

LocalSizes SizesOf(std::int64_t hidden, std::int64_t heads, std::int64_t sequence, int micro_batch) {
  ModelConfig model;
  model.family = "gpt2";
  model.layers = 2;
  model.hidden = hidden;
  model.heads = heads;
  model.ffn = 4 * hidden;
  model.vocabulary = 512;
  model.sequence = sequence;
  return {Completed(model), {.micro_batch = micro_batch}, DType::kFloat8E4M3, false};
}

TEST(Float8Products, OfLargeOperandsAreFasterByTheRuleAndOfSmallOnesAreNot) {
  const LocalSizes large = SizesOf(2048, 16, 2048, 16);  // 1.3B
  const LocalSizes small = SizesOf(768, 12, 1024, 1);    // 124M, one sequence
  for (int i = 0; i < kBlockLinears; ++i) {
    const auto linear = static_cast<BlockLinear>(i);
    EXPECT_GT(EstimatedGain(ShapeOf(linear, large, true)), 1.3) << i;
    EXPECT_LT(EstimatedGain(ShapeOf(linear, small, true)), 1) << i;
  }
  EXPECT_EQ(ShapeOf(BlockLinear::kFfnOut, small, true).inputs, 3072);
  EXPECT_EQ(ShapeOf(BlockLinear::kQkv, small, true).outputs, 3 * 768);
}

// The measurement runs every operation of both ways; which is faster is the machine's.
TEST(Float8Products, AreMeasuredOnADevice) {
  const std::unique_ptr<Device> device = MakeDevice({.kind = "cpu"});
  for (const bool bias : {false, true}) {
    const LinearShape shape{.rows = 32, .outputs = 48, .inputs = 16, .bias = bias};
    EXPECT_GT(MeasuredGain(*device, shape), 0);
  }
}

}  // namespace
}  // namespace trireme
