#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "device/workbench.h"

namespace trireme {
namespace {

constexpr std::int64_t kTokens = 4;
constexpr std::int64_t kColumns = 12;
constexpr std::int64_t kValid = 10;

CrossEntropyArgs MakeArgs(Workbench& bench) {
  return {.logits = bench.Normal(kFloat, {kTokens, kColumns}, "logits", 2),
          .valid_columns = kValid,
          .targets = bench.From(DType::kInt32, {kTokens}, {3, 0, 9, 5}),
          .statistics = bench.Output(kFloat, {3, kTokens}),
          .weights = bench.From(kFloat, {kTokens}, {1, 0.5F, 2, 0}),
          .scale = 0.75F,
          .losses = bench.Output(kFloat, {kTokens})};
}

// loss + z_loss * logsumexp^2 in double, weighted and scaled as the gradient is.
double Objective(Workbench& bench, const CrossEntropyArgs& args) {
  const std::vector<float> logits = bench.Read(args.logits);
  const std::vector<float> targets = bench.Read(args.targets);
  const std::vector<float> weights = bench.Read(args.weights);
  double total = 0;
  for (std::size_t row = 0; row < kTokens; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < kValid; ++i) {
      sum += std::exp(static_cast<double>(logits[row * kColumns + i]));
    }
    const double log_sum = std::log(sum);
    const double loss = log_sum - logits[row * kColumns + static_cast<std::size_t>(targets[row])];
    total += args.scale * weights[row] * (loss + args.z_loss * log_sum * log_sum);
  }
  return total;
}

class CrossEntropy : public testing::TestWithParam<float> {};

TEST_P(CrossEntropy, GradientEqualsFiniteDifferences) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  CrossEntropyArgs args = MakeArgs(bench);
  args.z_loss = GetParam();
  const Tensor variable = bench.Copy(args.logits);
  bench.ops().CrossEntropyStatistics(args, args.statistics);
  bench.ops().CrossEntropyGradient(args);
  CrossEntropyArgs moved = args;
  moved.logits = variable;
  ExpectGradient(bench,
                 {.variable = variable, .gradient = args.logits, .loss = [&] { return Objective(bench, moved); }});
}

TEST_P(CrossEntropy, GradientOfCappedLogitsEqualsFiniteDifferences) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  CrossEntropyArgs args = MakeArgs(bench);
  args.z_loss = GetParam();
  args.cap = 1.5F;
  const Tensor variable = bench.Copy(args.logits);
  bench.ops().Run(SoftCap<Tensor>{args.logits, args.cap});
  bench.ops().CrossEntropyStatistics(args, args.statistics);
  bench.ops().CrossEntropyGradient(args);
  CrossEntropyArgs moved = args;
  ExpectGradient(bench, {.variable = variable, .gradient = args.logits, .loss = [&] {
                           moved.logits = bench.Copy(variable);
                           bench.ops().Run(SoftCap<Tensor>{moved.logits, args.cap});
                           return Objective(bench, moved);
                         }});
}

INSTANTIATE_TEST_SUITE_P(ZLosses, CrossEntropy, testing::Values(0.0F, 0.1F));

TEST(CrossEntropyLosses, AreUnweightedMinusLogProbabilities) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  CrossEntropyArgs args = MakeArgs(bench);
  bench.ops().CrossEntropyStatistics(args, args.statistics);
  bench.ops().CrossEntropyEvaluation(args);
  const std::vector<float> losses = bench.Read(args.losses);
  args.scale = 1;
  for (std::size_t row = 0; row < kTokens; ++row) {
    std::vector<float> one(kTokens, 0);
    one[row] = 1;
    args.weights = bench.From(kFloat, {kTokens}, one);
    EXPECT_NEAR(losses[row], Objective(bench, args), 1e-5);
  }
}

TEST(CrossEntropyParts, EqualOnePart) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const CrossEntropyArgs whole = MakeArgs(bench);
  const std::vector<float> logits = bench.Read(whole.logits);
  const Tensor statistics = bench.Output(kFloat, {3, 3, kTokens});
  std::vector<CrossEntropyArgs> parts;
  for (std::int64_t part = 0; part < 3; ++part) {
    std::vector<float> columns;
    for (std::int64_t row = 0; row < kTokens; ++row) {
      for (std::int64_t i = 0; i < 4; ++i) {
        columns.push_back(logits[static_cast<std::size_t>(row * kColumns + part * 4 + i)]);
      }
    }
    CrossEntropyArgs args = whole;
    args.logits = bench.From(kFloat, {kTokens, 4}, columns);
    args.first_column = part * 4;
    args.valid_columns = part == 2 ? 2 : 4;
    args.statistics = statistics;
    args.losses = bench.Output(kFloat, {kTokens});
    bench.ops().CrossEntropyStatistics(args, statistics.Rows(part, 1));
    parts.push_back(args);
  }
  bench.ops().CrossEntropyStatistics(whole, whole.statistics);
  bench.ops().CrossEntropyGradient(whole);
  const std::vector<float> expected = bench.Read(whole.logits);
  for (std::size_t part = 0; part < 3; ++part) {
    bench.ops().CrossEntropyGradient(parts[part]);
    EXPECT_LT(RelativeDifference(bench.Read(parts[part].losses), bench.Read(whole.losses)), 1e-6);
    const std::vector<float> gradient = bench.Read(parts[part].logits);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_NEAR(gradient[i], expected[i / 4 * kColumns + part * 4 + i % 4], 1e-6);
    }
  }
}

TEST(CrossEntropyAtOnce, IsStatisticsAndGradientOfAllColumns) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const CrossEntropyArgs apart = MakeArgs(bench);
  CrossEntropyArgs at_once = apart;
  at_once.logits = bench.Copy(apart.logits);
  at_once.losses = bench.Output(kFloat, {kTokens});
  bench.ops().CrossEntropyStatistics(apart, apart.statistics);
  bench.ops().CrossEntropyGradient(apart);
  bench.ops().CrossEntropy(at_once);
  EXPECT_EQ(bench.Read(at_once.losses), bench.Read(apart.losses));
  EXPECT_EQ(bench.Read(at_once.logits), bench.Read(apart.logits));
  at_once.statistics = bench.Output(kFloat, {2, 3, kTokens});
  EXPECT_THROW(bench.ops().CrossEntropy(at_once), Error) << "statistics of two parts";
}

TEST(CrossEntropyParts, APartOfPaddingAloneChangesNothing) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  CrossEntropyArgs args = MakeArgs(bench);
  const Tensor both = bench.Output(kFloat, {2, 3, kTokens});
  CrossEntropyArgs empty = args;
  empty.logits = bench.Normal(kFloat, {kTokens, 5}, "padding");
  empty.first_column = kValid;
  empty.valid_columns = 0;
  args.statistics = both.Rows(0, 1);
  empty.statistics = both;
  bench.ops().CrossEntropyStatistics(args, both.Rows(0, 1));
  bench.ops().CrossEntropyStatistics(empty, both.Rows(1, 1));
  bench.ops().CrossEntropyEvaluation(args);
  const std::vector<float> alone = bench.Read(args.losses);
  bench.ops().CrossEntropyGradient(empty);
  EXPECT_EQ(bench.Read(empty.losses), alone);
  EXPECT_EQ(bench.Read(empty.logits), std::vector<float>(5 * kTokens, 0));
}

TEST(CrossEntropyLosses, NanLogitsShow) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  CrossEntropyArgs args = MakeArgs(bench);
  std::vector<float> logits = bench.Read(args.logits);
  logits[4] = std::nanf("");
  bench.Write(args.logits, logits);
  bench.ops().CrossEntropyStatistics(args, args.statistics);
  bench.ops().CrossEntropyGradient(args);
  EXPECT_TRUE(std::isnan(bench.Read(args.losses)[0]));
  EXPECT_TRUE(std::isnan(bench.Read(args.logits)[1]));
  EXPECT_TRUE(std::isfinite(bench.Read(args.losses)[1]));
}

TEST(LossSum, WeighsLossesAndCountsWeights) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor sums = bench.Output(kFloat, {2});
  bench.ops().LossSum(bench.From(kFloat, {3}, {1, 2, 3}), bench.From(kFloat, {3}, {1, 0, 0.5F}), sums);
  EXPECT_EQ(bench.Read(sums), (std::vector<float>{2.5F, 1.5F}));
  bench.ops().LossSum(bench.Output(kFloat, {0}), bench.Output(kFloat, {0}), sums);
  EXPECT_EQ(bench.Read(sums), (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace trireme
