#include <gtest/gtest.h>

#include "device/workbench.h"

namespace trireme {
namespace {

struct DecodeSizes {
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_size;
  bool alibi = false;
  std::int64_t window = 0;
  float cap = 0;
};

// Rows [first, first + count) of each sequence of a tensor of [batch * sequence, columns].
std::vector<float> SequenceRows(const std::vector<float>& all, const DecodeSizes& sizes, std::int64_t first,
                                std::int64_t count) {
  const auto columns = static_cast<std::int64_t>(all.size()) / (sizes.batch * sizes.sequence);
  std::vector<float> rows;
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    const auto begin = all.begin() + (b * sizes.sequence + first) * columns;
    rows.insert(rows.end(), begin, begin + count * columns);
  }
  return rows;
}

// The attention of whole sequences, and the same tokens given `step` at a time to a cache.
void ExpectDecodeEqualsFull(DType working, const DecodeSizes& sizes, std::int64_t step, double tolerance) {
  const auto device = CpuForTest(2);
  Workbench bench(*device);
  const std::int64_t rows = sizes.batch * sizes.sequence;
  const std::int64_t width = (sizes.heads + 2 * sizes.kv_heads) * sizes.head_size;
  const Tensor slopes = sizes.alibi ? bench.Normal(kFloat, {sizes.heads}, "slopes", 0.1F, 0.3F) : Tensor{};
  const AttentionArgs full{.batch = sizes.batch,
                           .sequence = sizes.sequence,
                           .heads = sizes.heads,
                           .kv_heads = sizes.kv_heads,
                           .head_size = sizes.head_size,
                           .scale = 0.4F,
                           .window = sizes.window,
                           .cap = sizes.cap,
                           .slopes = slopes,
                           .qkv = bench.Normal(working, {rows, width}, "qkv"),
                           .out = bench.Output(working, {rows, sizes.heads * sizes.head_size}),
                           .statistics = bench.Output(kFloat, {sizes.batch, sizes.heads, sizes.sequence})};
  bench.ops().AttentionForward(full);
  const std::vector<float> all = bench.Read(full.qkv);
  const std::vector<float> expected = bench.Read(full.out);
  const std::int64_t capacity = sizes.sequence + 3;
  const Shape cache{sizes.batch, capacity, sizes.kv_heads * sizes.head_size};
  DecodeAttentionArgs decode{.batch = sizes.batch,
                             .capacity = capacity,
                             .heads = sizes.heads,
                             .kv_heads = sizes.kv_heads,
                             .head_size = sizes.head_size,
                             .scale = 0.4F,
                             .window = sizes.window,
                             .cap = sizes.cap,
                             .slopes = slopes,
                             .keys = bench.Output(working, cache),
                             .values = bench.Output(working, cache)};
  for (std::int64_t first = 0; first < sizes.sequence; first += step) {
    const std::int64_t count = std::min(step, sizes.sequence - first);
    decode.queries = count;
    decode.starts = bench.Filled(DType::kInt32, {sizes.batch}, static_cast<float>(first));
    decode.qkv = bench.From(working, {sizes.batch * count, width}, SequenceRows(all, sizes, first, count));
    decode.out = bench.Output(working, {sizes.batch * count, sizes.heads * sizes.head_size});
    bench.ops().DecodeAttention(decode);
    EXPECT_LT(RelativeDifference(bench.Read(decode.out), SequenceRows(expected, sizes, first, count)), tolerance)
        << "tokens from " << first;
  }
}

TEST(DecodeAttention, EqualsFullAttentionTokenByToken) {
  ExpectDecodeEqualsFull(kFloat, {2, 19, 3, 3, 8}, 1, 1e-5);
  ExpectDecodeEqualsFull(kFloat, {1, 40, 4, 2, 5, true}, 1, 1e-5);
  ExpectDecodeEqualsFull(DType::kBFloat16, {2, 19, 4, 1, 16}, 1, 1e-2);
  ExpectDecodeEqualsFull(kFloat, {2, 30, 4, 2, 8, false, 6, 1.5F}, 1, 1e-5);
}

TEST(DecodeAttention, EqualsFullAttentionInPiecesOfAnyLength) {
  ExpectDecodeEqualsFull(kFloat, {2, 19, 4, 2, 8, true}, 7, 1e-5);
  ExpectDecodeEqualsFull(kFloat, {3, 19, 2, 1, 8}, 19, 1e-5);
  ExpectDecodeEqualsFull(kFloat, {2, 30, 4, 2, 8, true, 6, 0.7F}, 8, 1e-5);
}

// A shorter sequence of a batch: what its padding left behind its end is overwritten before it is read.
TEST(DecodeAttention, SequencesMayStandAtDifferentPositions) {
  const auto device = CpuForTest();
  Workbench bench(*device);
  const Shape row{2, 3 * 4};
  DecodeAttentionArgs args{.batch = 2,
                           .queries = 2,
                           .capacity = 4,
                           .heads = 1,
                           .kv_heads = 1,
                           .head_size = 4,
                           .starts = bench.From(DType::kInt32, {2}, {0, 0}),
                           .qkv = bench.Normal(kFloat, {4, 12}, "prompts"),
                           .keys = bench.Output(kFloat, {2, 4, 4}),
                           .values = bench.Output(kFloat, {2, 4, 4}),
                           .out = bench.Output(kFloat, {4, 4})};
  bench.ops().DecodeAttention(args);
  const std::vector<float> prompts = bench.Read(args.qkv);
  const Tensor next = bench.Normal(kFloat, row, "next");
  args.queries = 1;
  args.starts = bench.From(DType::kInt32, {2}, {2, 1});
  args.qkv = next;
  args.out = bench.Output(kFloat, {2, 4});
  bench.ops().DecodeAttention(args);
  const std::vector<float> together = bench.Read(args.out);

  std::vector<float> alone(prompts.begin() + 2 * 12, prompts.begin() + 3 * 12);
  const std::vector<float> next_rows = bench.Read(next);
  alone.insert(alone.end(), next_rows.begin() + 12, next_rows.end());
  args.batch = 1;
  args.queries = 2;
  args.starts = bench.From(DType::kInt32, {1}, {0});
  args.qkv = bench.From(kFloat, {2, 12}, alone);
  args.keys = bench.Output(kFloat, {1, 4, 4});
  args.values = bench.Output(kFloat, {1, 4, 4});
  args.out = bench.Output(kFloat, {2, 4});
  bench.ops().DecodeAttention(args);
  const std::vector<float> separate = bench.Read(args.out);
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_FLOAT_EQ(together[4 + d], separate[4 + d]);
  }
}

TEST(DecodeAttention, TokensPastTheCapacityAreZeroAndNotStored) {
  const auto device = CpuForTest();
  Workbench bench(*device);
  const DecodeAttentionArgs args{.batch = 1,
                                 .queries = 3,
                                 .capacity = 2,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .head_size = 2,
                                 .starts = bench.From(DType::kInt32, {1}, {1}),
                                 .qkv = bench.Normal(kFloat, {3, 6}, "qkv"),
                                 .keys = bench.Filled(kFloat, {1, 2, 2}, 1),
                                 .values = bench.Filled(kFloat, {1, 2, 2}, 1),
                                 .out = bench.Output(kFloat, {3, 2})};
  bench.ops().DecodeAttention(args);
  const std::vector<float> out = bench.Read(args.out);
  EXPECT_NE(out[0], 0);
  EXPECT_EQ(std::vector<float>(out.begin() + 2, out.end()), std::vector<float>(4, 0.0F));
}

TEST(Rotary, GivenPositionsReplaceTheRowNumber) {
  const auto device = CpuForTest();
  Workbench bench(*device);
  Rotary<Tensor> args{
      .qkv = bench.Normal(kFloat, {5, 3 * 4}, "qkv"), .sequence = 5, .heads = 1, .kv_heads = 1, .head_size = 4};
  const std::vector<float> before = bench.Read(args.qkv);
  bench.ops().Run(args);
  const std::vector<float> whole = bench.Read(args.qkv);
  args.qkv = bench.From(kFloat, {2, 12}, SequenceRows(before, {1, 5, 1, 1, 4}, 3, 2));
  args.positions = bench.From(DType::kInt32, {2}, {3, 4});
  bench.ops().Run(args);
  EXPECT_EQ(bench.Read(args.qkv), SequenceRows(whole, {1, 5, 1, 1, 4}, 3, 2));
}

}  // namespace
}  // namespace trireme
