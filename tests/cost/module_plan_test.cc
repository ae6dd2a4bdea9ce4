#include "cost/module_plan.h"

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

std::int64_t EndOf(const Place& place) {
  return place.offset + RoundUp(place.shape.count() * SizeOf(place.dtype), kPlanAlignment);
}

// Places of one area that are live at the same time.
void ExpectApart(const std::vector<Place>& places, std::int64_t bytes) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].area != Area::kKept) {
      continue;
    }
    EXPECT_LE(EndOf(places[i]), bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart =
          places[j].area != Area::kKept || EndOf(places[i]) <= places[j].offset || EndOf(places[j]) <= places[i].offset;
      EXPECT_TRUE(apart) << "places " << j << " and " << i;
    }
  }
}

TEST(BlockPlan, WhatForwardLeavesForBackwardDoesNotOverlap) {
  for (const std::string family : {"gpt2", "bloom", "llama"}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
      for (const bool split : {false, true}) {
        for (const ParallelLayout& cut :
             {ParallelLayout{}, ParallelLayout{.tensor = 2}, ParallelLayout{.tensor = 2, .sequence_parallel = true}}) {
          ParallelLayout layout = cut;
          layout.recompute = recompute;
          layout.micro_batch = 2;
          const BlockPlan plan(SizesOf(family, layout, split));
          ExpectApart({plan.input, plan.norm1_statistics, plan.normed1, plan.qkv, plan.attention_out,
                       plan.attention_statistics, plan.middle, plan.norm2_statistics, plan.normed2, plan.ffn_in,
                       plan.ffn_active, plan.grad_branch2, plan.grad_ffn_in, plan.grad_branch1, plan.grad_qkv},
                      plan.kept_bytes);
          EXPECT_EQ(plan.input.area, Area::kKept);
        }
      }
    }
  }
}

TEST(BlockPlan, RecomputationKeepsLessAtEveryLevel) {
  std::int64_t before = INT64_MAX;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    const BlockPlan plan(SizesOf("llama", {.recompute = recompute, .micro_batch = 2}));
    EXPECT_LT(plan.kept_bytes, before);
    before = plan.kept_bytes;
  }
  const LocalSizes sizes = SizesOf("llama", {.recompute = Recompute::kFull, .micro_batch = 2});
  EXPECT_EQ(before, sizes.tokens * sizes.hidden * 4) << "of a block that is computed again whole only its input stays";
}

TEST(HeadPlan, LogitsExistForOneChunkOfTokens) {
  const LocalSizes sizes = SizesOf("gpt2", {.micro_batch = 4});
  const HeadPlan plan(sizes, 8);
  EXPECT_EQ(plan.logits.shape, Shape({8, 56}));  // a vocabulary of 50, rounded up to a multiple of 8
  EXPECT_EQ(plan.kept_bytes, sizes.tokens * sizes.hidden * 4);
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
