#include "lowering/module_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

LocalSizes SizesOf(const std::string& family, const ParallelLayout& layout, bool split_backward = false) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.hidden = 32;
  config.heads = 4;
  config.vocabulary = 50;
  config.sequence = 8;
  return {Completed(config), layout, DType::kFloat32, split_backward};
}

TEST(HeadPlan, LogitsExistForOneChunkOfTokens) {
  const LocalSizes sizes = SizesOf("gpt2", {.micro_batch = 4});
  const HeadPlan plan(sizes, 8);
  EXPECT_EQ(plan.logits.shape, Shape({8, 56}));  // a vocabulary of 50, rounded up to a multiple of 8
  EXPECT_EQ(plan.kept_bytes, sizes.tokens * sizes.hidden * 4);
}

TEST(HeadPlan, AChunkGrowsIntoScratchThatIsThereAnyway) {
  ModelConfig config;
  config.family = "llama";
  config.layers = 1;
  config.hidden = 64;
  config.heads = 4;
  config.vocabulary = 128256;
  config.sequence = 4096;
  const LocalSizes sizes(Completed(config), {.micro_batch = 4}, DType::kBFloat16, false);
  const std::int64_t least = HeadChunk(sizes, 0);
  ASSERT_EQ(least, 2048);
  EXPECT_EQ(HeadChunkWithin(sizes, 0, 0), 2048);
  EXPECT_EQ(HeadChunkWithin(sizes, 0, HeadPlan(sizes, 3000).scratch_bytes), 2816) << "6 chunks of 16384 tokens";
  EXPECT_EQ(HeadChunkWithin(sizes, 0, HeadPlan(sizes, 1 << 20).scratch_bytes), sizes.tokens);
  EXPECT_EQ(HeadChunkWithin(sizes, 640, HeadPlan(sizes, 1 << 20).scratch_bytes), 640);
  for (const std::int64_t rows : {2048, 2500, 4000, 9000}) {
    const std::int64_t scratch = HeadPlan(sizes, rows).scratch_bytes;
    EXPECT_LE(HeadPlan(sizes, HeadChunkWithin(sizes, 0, scratch)).scratch_bytes, scratch) << rows;
  }
}

TEST(LocalSizes, ExtentsAreThoseOfOneRank) {
  const LocalSizes sizes = SizesOf("llama", {.tensor = 2, .sequence_parallel = true, .micro_batch = 2});
  EXPECT_EQ(sizes.tokens, 16);
  EXPECT_EQ(sizes.outside, 8);
  EXPECT_EQ(sizes.heads, 2);
  EXPECT_EQ(sizes.head_size, 8);
  EXPECT_EQ(sizes.qkv, (2 + 2 * 2) * 8);
  EXPECT_EQ(sizes.ffn_in, 2 * sizes.ffn);
  EXPECT_EQ(sizes.vocabulary, 32);
}

}  // namespace
}  // namespace trireme
