#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "device/attention_operands.h"

namespace trireme {
namespace {

struct Sizes {
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_size;
  bool alibi = false;
  bool documents = false;
  std::int64_t window = 0;
  float cap = 0;
  float dropout = 0;
};

AttentionArgs MakeArgs(Workbench& bench, const Sizes& sizes) {
  AttentionArgs args =
      MakeAttentionArgs(bench, kFloat, {sizes.batch, sizes.sequence, sizes.heads, sizes.kv_heads, sizes.head_size});
  args.scale = 0.4F;
  args.window = sizes.window;
  args.cap = sizes.cap;
  args.dropout = {.probability = sizes.dropout, .key = 77, .first_element = 1000};
  args.all_heads = sizes.heads + 3;
  args.all_positions = sizes.sequence + 5;
  if (sizes.alibi) {
    args.slopes = bench.Normal(kFloat, {sizes.heads}, "slopes", 0.1F, 0.3F);
  }
  if (sizes.documents) {
    std::vector<float> starts;
    for (std::int64_t i = 0; i < sizes.batch * sizes.sequence; ++i) {
      const std::int64_t t = i % sizes.sequence;
      starts.push_back(static_cast<float>(t - t % (3 + i / sizes.sequence)));
    }
    args.document_starts = bench.From(DType::kInt32, {sizes.batch, sizes.sequence}, starts);
  }
  return args;
}

struct Row {
  std::vector<double> out;
  double log_sum;
};

// The definition, in double: query t of head h in sequence b.
Row NaiveRow(Workbench& bench, const AttentionArgs& args, std::int64_t b, std::int64_t h, std::int64_t t) {
  const std::vector<float> qkv = bench.Read(args.qkv);
  const std::int64_t kv_head = h / (args.heads / args.kv_heads);
  const auto at = [&](std::int64_t position, std::int64_t head, std::int64_t d) {
    const std::int64_t row = b * args.sequence + position;
    return static_cast<double>(qkv[static_cast<std::size_t>(row * args.qkv.shape[1] + head * args.head_size + d)]);
  };
  const auto start =
      args.document_starts.given()
          ? static_cast<std::int64_t>(bench.Read(args.document_starts)[static_cast<std::size_t>(b * args.sequence + t)])
          : 0;
  const double slope = args.slopes.given() ? bench.Read(args.slopes)[static_cast<std::size_t>(h)] : 0;
  Row row{std::vector<double>(static_cast<std::size_t>(args.head_size)), 0};
  double sum = 0;
  const std::int64_t first = args.window > 0 ? std::max(start, t + 1 - args.window) : start;
  for (std::int64_t s = first; s <= t; ++s) {
    double score = slope * static_cast<double>(s - t);
    for (std::int64_t d = 0; d < args.head_size; ++d) {
      score += static_cast<double>(args.scale) * at(t, h, d) * at(s, args.heads + kv_head, d);
    }
    if (args.cap > 0) {
      score = static_cast<double>(args.cap) * std::tanh(score / static_cast<double>(args.cap));
    }
    sum += std::exp(score);
    const std::int64_t place =
        args.dropout.first_element + ((b * args.all_heads + h) * args.all_positions + t) * args.all_positions + s;
    const bool dropped = RandomUniform(args.dropout.key, static_cast<std::uint64_t>(place)) < args.dropout.probability;
    const double weight = dropped ? 0 : std::exp(score) / (1 - static_cast<double>(args.dropout.probability));
    for (std::int64_t d = 0; d < args.head_size; ++d) {
      row.out[static_cast<std::size_t>(d)] += weight * at(s, args.heads + args.kv_heads + kv_head, d);
    }
  }
  for (double& value : row.out) {
    value /= sum;
  }
  row.log_sum = std::log(sum);
  return row;
}

class Attention : public testing::TestWithParam<Sizes> {};

TEST_P(Attention, ForwardEqualsTheDefinition) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const AttentionArgs args = MakeArgs(bench, GetParam());
  bench.ops().AttentionForward(args);
  const std::vector<float> out = bench.Read(args.out);
  const std::vector<float> statistics = bench.Read(args.statistics);
  for (std::int64_t b = 0; b < args.batch; ++b) {
    for (std::int64_t h = 0; h < args.heads; ++h) {
      for (std::int64_t t = 0; t < args.sequence; t += 1 + args.sequence / 20) {
        const Row row = NaiveRow(bench, args, b, h, t);
        const std::int64_t statistic = (b * args.heads + h) * args.sequence + t;
        EXPECT_NEAR(statistics[static_cast<std::size_t>(statistic)], row.log_sum, 1e-5);
        for (std::int64_t d = 0; d < args.head_size; ++d) {
          const std::int64_t place = ((b * args.sequence + t) * args.heads + h) * args.head_size + d;
          EXPECT_NEAR(out[static_cast<std::size_t>(place)], row.out[static_cast<std::size_t>(d)], 1e-5)
              << b << ' ' << h << ' ' << t << ' ' << d;
        }
      }
    }
  }
}

TEST_P(Attention, BackwardEqualsFiniteDifferences) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const AttentionArgs args = MakeArgs(bench, GetParam());
  const auto loss = [&] {
    bench.ops().AttentionForward(args);
    return Dot(bench.Read(args.out), bench.Read(args.grad_out));
  };
  loss();
  bench.ops().AttentionBackward(args);
  const auto count = static_cast<std::size_t>(args.qkv.count());
  ExpectGradient(bench, {.variable = args.qkv, .gradient = args.grad_qkv, .loss = loss, .stride = 1 + count / 150});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Attention,
    testing::Values(Sizes{1, 1, 1, 1, 3}, Sizes{2, 7, 2, 2, 4}, Sizes{1, 50, 4, 2, 6, true},
                    Sizes{2, 13, 3, 1, 5, false, true}, Sizes{1, 33, 2, 1, 40, true, true}, Sizes{1, 131, 1, 1, 8},
                    Sizes{1, 140, 2, 2, 4, false, true}, Sizes{1, 50, 4, 2, 6, false, false, 7},
                    Sizes{2, 20, 2, 1, 8, true, false, 0, 0.8F}, Sizes{1, 140, 2, 1, 4, false, true, 5, 1.5F},
                    Sizes{2, 70, 4, 2, 8, true, false, 0, 0, 0.3F}, Sizes{1, 40, 2, 1, 4, false, true, 6, 0.9F, 0.5F}));

TEST(PlainAttention, IsFusedAttentionWithItsWeightsStored) {
  const auto cpu = CpuForTest();
  for (const Sizes& sizes : {Sizes{2, 70, 4, 2, 8}, Sizes{1, 140, 2, 1, 4, true, true, 5, 1.5F},
                             Sizes{2, 33, 2, 2, 8, false, false, 0, 0, 0.3F}}) {
    Workbench bench(*cpu);
    AttentionArgs args = MakeArgs(bench, sizes);
    bench.ops().AttentionForward(args);
    bench.ops().AttentionBackward(args);
    const std::vector<float> out = bench.Read(args.out);
    const std::vector<float> gradient = bench.Read(args.grad_qkv);
    const std::int64_t queries = sizes.batch * sizes.heads * sizes.sequence;
    args.weights = bench.Output(kFloat, {queries, sizes.sequence});
    args.scores = bench.Output(kFloat, {queries, sizes.sequence});
    bench.ops().AttentionForward(args);
    bench.ops().AttentionBackward(args);
    EXPECT_LT(RelativeDifference(bench.Read(args.out), out), 1e-6);
    EXPECT_LT(RelativeDifference(bench.Read(args.grad_qkv), gradient), 1e-5);
    const std::vector<float> weights = bench.Read(args.weights);
    for (std::int64_t row = 0; row < queries; ++row) {
      const auto first = weights.begin() + row * sizes.sequence;
      EXPECT_NEAR(std::accumulate(first, first + sizes.sequence, 0.0), 1, 1e-5);
      EXPECT_TRUE(
          std::all_of(first + row % sizes.sequence + 1, first + sizes.sequence, [](float w) { return w == 0; }));
    }
  }
}

TEST(AttentionDocuments, EqualSeparateSequences) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  AttentionArgs packed = MakeArgs(bench, {1, 60, 2, 1, 8});
  std::vector<float> starts(60, 0);
  std::fill(starts.begin() + 25, starts.end(), 25.0F);
  packed.document_starts = bench.From(DType::kInt32, {1, 60}, starts);
  bench.ops().AttentionForward(packed);
  bench.ops().AttentionBackward(packed);
  AttentionArgs second = packed;
  second.sequence = 35;
  second.document_starts = {};
  second.qkv = packed.qkv.Rows(25, 35);
  second.grad_out = packed.grad_out.Rows(25, 35);
  second.out = bench.Output(kFloat, {35, 16});
  second.statistics = bench.Output(kFloat, {1, 2, 35});
  second.grad_qkv = bench.Output(kFloat, {35, 32});
  bench.ops().AttentionForward(second);
  bench.ops().AttentionBackward(second);
  EXPECT_LT(RelativeDifference(bench.Read(second.out), bench.Read(packed.out.Rows(25, 35))), 1e-5);
  EXPECT_LT(RelativeDifference(bench.Read(second.grad_qkv), bench.Read(packed.grad_qkv.Rows(25, 35))), 1e-5);
}

TEST(AttentionScores, LargeOnesDoNotOverflow) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  AttentionArgs args = MakeArgs(bench, {1, 40, 1, 1, 8});
  args.qkv = bench.Normal(kFloat, {40, 24}, "qkv", 100);
  bench.ops().AttentionForward(args);
  bench.ops().AttentionBackward(args);
  for (const float value : bench.Read(args.out)) {
    EXPECT_TRUE(std::isfinite(value));
  }
  for (const float value : bench.Read(args.grad_qkv)) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace trireme
