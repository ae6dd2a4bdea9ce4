// Attention of queries that are chunks of their sequences, over keys of all tokens: the rows of whole attention. Also
// what is drawn or looked up by a token's number where rows are not in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/workbench.h"

namespace trireme {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kRanks = 3;
constexpr std::int64_t kChunks = 2 * kRanks;  // rank r has chunk r and chunk 5 - r

struct ChunkSizes {
  std::int64_t chunk;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_size;
  bool alibi = false;
  bool documents = false;
  std::int64_t window = 0;
  float cap = 0;
  DType dtype = kFloat;

  std::int64_t sequence() const { return kChunks * chunk; }
  std::int64_t here() const { return 2 * chunk; }  // tokens of a sequence on a rank
  std::int64_t query_width() const { return heads * head_size; }
  std::int64_t kv_width() const { return 2 * kv_heads * head_size; }
};

// `count` rows from `row` on.
std::vector<float> RowsOf(const std::vector<float>& all, std::int64_t width, std::int64_t row, std::int64_t count) {
  return {all.begin() + row * width, all.begin() + (row + count) * width};
}

class Chunked : public testing::TestWithParam<ChunkSizes> {
 protected:
  Chunked() : cpu_(CpuForTest(2)), bench_(*cpu_) {}

  const ChunkSizes& sizes() const { return GetParam(); }
  Tensor Make(const Shape& shape, const char* name) { return bench_.Normal(sizes().dtype, shape, name); }

  // All tokens on one rank.
  AttentionArgs Whole() {
    const std::int64_t rows = kBatch * sizes().sequence();
    const Shape packed{rows, sizes().query_width() + sizes().kv_width()};
    AttentionArgs args = Common();
    args.sequence = sizes().sequence();
    args.qkv = Make(packed, "qkv");
    args.out = bench_.Output(sizes().dtype, {rows, sizes().query_width()});
    args.statistics = bench_.Output(kFloat, {kBatch, sizes().heads, sizes().sequence()});
    args.grad_out = Make({rows, sizes().query_width()}, "grad_out");
    args.grad_qkv = bench_.Output(sizes().dtype, packed);
    if (sizes().documents) {
      std::vector<float> starts;
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t t = i % sizes().sequence();
        starts.push_back(static_cast<float>(t - t % (5 + i / sizes().sequence())));
      }
      args.document_starts = bench_.From(DType::kInt32, {kBatch, sizes().sequence()}, starts);
    }
    return args;
  }

  // The tokens of a rank, out of `whole`.
  AttentionArgs OfRank(const AttentionArgs& whole, std::int64_t rank) {
    query_chunks_ = {rank * sizes().chunk, (kChunks - 1 - rank) * sizes().chunk};
    key_chunks_.clear();
    for (std::int64_t chunk = 0; chunk < kChunks; ++chunk) {
      const bool early = chunk < kRanks;
      key_chunks_.push_back(
          {.position = chunk * sizes().chunk,
           .row = (early ? chunk : kChunks - 1 - chunk) * kBatch * sizes().here() + (early ? 0 : sizes().chunk)});
    }
    const std::int64_t rows = kBatch * sizes().here();
    const Shape packed{rows, sizes().query_width() + sizes().kv_width()};
    AttentionArgs args = Common();
    args.sequence = sizes().here();
    args.slopes = whole.slopes;
    args.query_chunks = query_chunks_;
    args.key_chunks = key_chunks_;
    std::vector<float> qkv = Share(whole.qkv, rank);
    // Keys and values of the packed rows are not read.
    for (std::int64_t row = 0; row < rows; ++row) {
      std::fill_n(qkv.begin() + row * packed[1] + sizes().query_width(), sizes().kv_width(), std::nanf(""));
    }
    args.qkv = bench_.From(sizes().dtype, packed, qkv);
    args.kv = bench_.From(sizes().dtype, {kRanks * rows, sizes().kv_width()}, KeysByRank(whole.qkv));
    args.out = bench_.Output(sizes().dtype, {rows, sizes().query_width()});
    args.statistics = bench_.Output(kFloat, {kBatch, sizes().heads, sizes().here()});
    args.grad_out = bench_.From(sizes().dtype, {rows, sizes().query_width()}, Share(whole.grad_out, rank));
    args.grad_qkv = bench_.Filled(sizes().dtype, packed, 0);
    args.grad_kv = bench_.Output(sizes().dtype, args.kv.shape);
    if (whole.document_starts.given()) {
      args.document_starts = bench_.From(DType::kInt32, {kBatch, sizes().here()},
                                         Share(whole.document_starts.Reshaped({kBatch * sizes().sequence(), 1}), rank));
    }
    return args;
  }

  // A rank's rows of a matrix of all tokens.
  std::vector<float> Share(const Tensor& all, std::int64_t rank) {
    const std::vector<float> values = bench_.Read(all);
    std::vector<float> share;
    for (std::int64_t b = 0; b < kBatch; ++b) {
      for (const std::int64_t chunk : {rank, kChunks - 1 - rank}) {
        const std::vector<float> rows =
            RowsOf(values, all.shape[1], b * sizes().sequence() + chunk * sizes().chunk, sizes().chunk);
        share.insert(share.end(), rows.begin(), rows.end());
      }
    }
    return share;
  }

  // Keys and values of packed rows, in the order of ranks.
  std::vector<float> KeysByRank(const Tensor& packed) {
    std::vector<float> kv;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      const std::vector<float> rows = Share(packed, rank);
      for (std::int64_t row = 0; row < kBatch * sizes().here(); ++row) {
        const auto first = rows.begin() + row * packed.shape[1] + sizes().query_width();
        kv.insert(kv.end(), first, first + sizes().kv_width());
      }
    }
    return kv;
  }

  AttentionArgs Common() {
    AttentionArgs args{.batch = kBatch,
                       .heads = sizes().heads,
                       .kv_heads = sizes().kv_heads,
                       .head_size = sizes().head_size,
                       .scale = 0.4F,
                       .window = sizes().window,
                       .cap = sizes().cap};
    if (sizes().alibi) {
      args.slopes = bench_.Normal(kFloat, {sizes().heads}, "slopes", 0.1F, 0.3F);
    }
    return args;
  }

  double tolerance() const { return sizes().dtype == kFloat ? 2e-6 : 2e-2; }

  std::unique_ptr<Device> cpu_;
  Workbench bench_;
  std::vector<std::int64_t> query_chunks_;
  std::vector<KeyChunk> key_chunks_;
};

TEST_P(Chunked, ForwardGivesTheRowsOfTheWhole) {
  const AttentionArgs whole = Whole();
  bench_.ops().AttentionForward(whole);
  const FlopCount before = bench_.ops().flops();
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    const AttentionArgs args = OfRank(whole, rank);
    bench_.ops().AttentionForward(args);
    EXPECT_LE(RelativeDifference(bench_.Read(args.out), Share(whole.out, rank)), tolerance());
  }
  // The ranks' work adds up to the whole.
  EXPECT_EQ(bench_.ops().flops().attention, 2 * before.attention);
}

TEST_P(Chunked, GradientsOfAllRanksAddUpToTheWhole) {
  const AttentionArgs whole = Whole();
  bench_.ops().AttentionForward(whole);
  bench_.ops().AttentionBackward(whole);
  std::vector<float> sum(static_cast<std::size_t>(kRanks * kBatch * sizes().here() * sizes().kv_width()));
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    const AttentionArgs args = OfRank(whole, rank);
    bench_.ops().AttentionForward(args);
    bench_.ops().AttentionBackward(args);
    const std::vector<float> part = bench_.Read(args.grad_kv);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += part[i];
    }
    std::vector<float> expected = Share(whole.grad_qkv, rank);
    const std::vector<float> found = bench_.Read(args.grad_qkv);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // Gradients of keys and values are another operation's.
      const bool of_query = static_cast<std::int64_t>(i) % args.qkv.shape[1] < sizes().query_width();
      expected[i] = of_query ? expected[i] : found[i];
    }
    EXPECT_LE(RelativeDifference(found, expected), 10 * tolerance());
  }
  EXPECT_LE(RelativeDifference(sum, KeysByRank(whole.grad_qkv)), 10 * tolerance());
}

// Ring: keys come a rank's block at a time. Results merge by their sums, gradients add up.
TEST_P(Chunked, BlocksOfKeysMergeToTheWhole) {
  const AttentionArgs whole = Whole();
  bench_.ops().AttentionForward(whole);
  bench_.ops().AttentionBackward(whole);
  const std::int64_t rows = kBatch * sizes().here();
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    const AttentionArgs all = OfRank(whole, rank);
    const Tensor out = bench_.Filled(kFloat, all.out.shape, 0);
    const Tensor statistics = bench_.Filled(kFloat, all.statistics.shape, -std::numeric_limits<float>::infinity());
    std::vector<AttentionArgs> parts;
    std::vector<std::vector<KeyChunk>> chunks;
    chunks.reserve(kRanks);
    for (std::int64_t source = 0; source < kRanks; ++source) {
      chunks.push_back({{.position = source * sizes().chunk, .row = 0},
                        {.position = (kChunks - 1 - source) * sizes().chunk, .row = sizes().chunk}});
      AttentionArgs part = all;
      part.key_chunks = chunks.back();
      part.kv = all.kv.Rows(source * rows, rows);
      part.grad_kv = all.grad_kv.Rows(source * rows, rows);
      part.out = bench_.Output(sizes().dtype, all.out.shape);
      part.statistics = bench_.Output(kFloat, all.statistics.shape);
      part.grad_qkv = bench_.Filled(sizes().dtype, all.grad_qkv.shape, 0);
      bench_.ops().AttentionForward(part);
      bench_.ops().MergeAttention({.batch = kBatch,
                                   .sequence = sizes().here(),
                                   .heads = sizes().heads,
                                   .head_size = sizes().head_size,
                                   .out = out,
                                   .statistics = statistics,
                                   .part_out = part.out,
                                   .part_statistics = part.statistics});
      parts.push_back(part);
    }
    EXPECT_LE(RelativeDifference(bench_.Read(out), Share(whole.out, rank)), tolerance());
    bench_.ops().Copy(all.out, out);
    bench_.ops().Copy(all.statistics, statistics);
    bench_.ops().AttentionBackward(all);
    const std::vector<float> expected_kv = bench_.Read(all.grad_kv);
    std::vector<float> sum(static_cast<std::size_t>(all.grad_qkv.count()));
    for (AttentionArgs& part : parts) {
      part.out = all.out;
      part.statistics = statistics;
      bench_.ops().AttentionBackward(part);
      const std::vector<float> added = bench_.Read(part.grad_qkv);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] += added[i];
      }
    }
    EXPECT_LE(RelativeDifference(sum, bench_.Read(all.grad_qkv)), 10 * tolerance());
    EXPECT_LE(RelativeDifference(bench_.Read(all.grad_kv), expected_kv), 10 * tolerance());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Chunked,
                         testing::Values(ChunkSizes{1, 2, 2, 4}, ChunkSizes{5, 4, 2, 6}, ChunkSizes{40, 2, 1, 16},
                                         ChunkSizes{7, 3, 3, 8, true}, ChunkSizes{6, 2, 2, 8, false, true},
                                         ChunkSizes{9, 2, 1, 8, true, true, 11, 1.5F},
                                         ChunkSizes{33, 2, 2, 8, false, false, 20},
                                         ChunkSizes{40, 4, 2, 32, false, true, 0, 0, DType::kBFloat16}));

TEST(ScatteredTokens, DropTheElementsThatTheyDropInOrder) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor whole = bench.Filled(kFloat, {6, 5}, 1);
  const Dropout dropout{.probability = 0.4F, .key = 17, .first_element = 20};
  bench.ops().ApplyDropout(whole, whole, dropout);
  Dropout scattered = dropout;
  scattered.tokens = bench.From(DType::kInt32, {3}, {4, 0, 5});
  const Tensor rows = bench.Filled(kFloat, {3, 5}, 1);
  bench.ops().ApplyDropout(rows, rows, scattered);
  const std::vector<float> all = bench.Read(whole);
  std::vector<float> expected;
  for (const std::int64_t row : {4, 0, 5}) {
    expected.insert(expected.end(), all.begin() + row * 5, all.begin() + row * 5 + 5);
  }
  EXPECT_EQ(bench.Read(rows), expected);
  // A residual norm drops the same.
  const Tensor sum = bench.Output(kFloat, {3, 5});
  bench.ops().ResidualNormForward({.x = bench.Filled(kFloat, {3, 5}, 0),
                                   .branch = bench.Filled(kFloat, {3, 5}, 1),
                                   .dropout = scattered,
                                   .sum = sum});
  EXPECT_EQ(bench.Read(sum), expected);
}

TEST(ScatteredTokens, TakeTheirOwnPositions) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor x = bench.Filled(kFloat, {3, 2}, 0);
  const Tensor table = bench.From(kFloat, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor grad_table = bench.Filled(kFloat, {4, 2}, 0);
  const Tensor positions = bench.From(DType::kInt32, {3}, {7, 0, 3});
  bench.ops().Run(AddPositions<Tensor>{.x = x, .table = table, .positions = positions});
  EXPECT_EQ(bench.Read(x), (std::vector<float>{7, 8, 1, 2, 7, 8}));
  bench.ops().Run(PositionsBackward<Tensor>{.grad = x, .grad_table = grad_table, .positions = positions});
  EXPECT_EQ(bench.Read(grad_table), (std::vector<float>{1, 2, 0, 0, 0, 0, 14, 16}));
}

}  // namespace
}  // namespace trireme
