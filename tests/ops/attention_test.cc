// FLOPs of a call of attention.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <array>

namespace trireme {
namespace {

TEST(AttentionFlops, ChunksOfASequenceAddUpToTheWhole) {
  std::array<char, 1> memory{};
  const Tensor given{memory.data(), DType::kFloat32, {1}};
  const AttentionArgs whole{.batch = 2, .sequence = 8, .heads = 3, .kv_heads = 3, .head_size = 4, .qkv = given};
  EXPECT_EQ(AttentionForwardFlops(whole), 2 * 3 * 36 * 4 * 4) << "36 causal pairs of 8 positions";
  // Two ranks with two chunks of two positions each, in zig-zag; either sees the keys of both.
  const std::array<KeyChunk, 4> keys{KeyChunk{0, 0}, KeyChunk{2, 4}, KeyChunk{4, 6}, KeyChunk{6, 2}};
  std::int64_t flops = 0;
  for (const std::array<std::int64_t, 2>& queries : {std::array<std::int64_t, 2>{0, 6}, {2, 4}}) {
    AttentionArgs part = whole;
    part.sequence = 4;
    part.kv = given;
    part.query_chunks = queries;
    part.key_chunks = keys;
    flops += AttentionForwardFlops(part);
  }
  EXPECT_EQ(flops, AttentionForwardFlops(whole));
}

TEST(AttentionFlops, PlainAttentionMultipliesHiddenPairsToo) {
  std::array<char, 1> memory{};
  const Tensor given{memory.data(), DType::kFloat32, {1}};
  const AttentionArgs plain{
      .batch = 1, .sequence = 8, .heads = 1, .kv_heads = 1, .head_size = 4, .qkv = given, .weights = given};
  EXPECT_EQ(AttentionForwardFlops(plain), 8 * 8 * 4 * 4);
}

}  // namespace
}  // namespace trireme
