#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/random.h"
#include "device/workbench.h"

namespace trireme {
namespace {

class NormGradients : public testing::TestWithParam<std::tuple<NormKind, int>> {};

TEST_P(NormGradients, EqualFiniteDifferences) {
  const auto [kind, columns] = GetParam();
  const Shape shape{3, columns};
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  ResidualNormArgs forward{.x = bench.Normal(kFloat, shape, "x"),
                           .kind = kind,
                           .gamma = bench.Normal(kFloat, {columns}, "gamma"),
                           .normed = bench.Output(kFloat, shape),
                           .statistics = bench.Output(kFloat, {2, 3})};
  if (kind == NormKind::kLayer) {
    forward.beta = bench.Normal(kFloat, {columns}, "beta");
  }
  const Tensor grad = bench.Normal(kFloat, shape, "grad");
  const Tensor residual = bench.Normal(kFloat, shape, "residual");
  // x feeds the norm and, through the residual path, the loss directly.
  const auto loss = [&] {
    bench.ops().ResidualNormForward(forward);
    return Dot(bench.Read(forward.normed), bench.Read(grad)) + Dot(bench.Read(forward.x), bench.Read(residual));
  };
  loss();
  NormBackwardArgs backward{.grad_normed = grad,
                            .x = forward.x,
                            .statistics = forward.statistics,
                            .kind = kind,
                            .gamma = forward.gamma,
                            .grad_residual = residual,
                            .grad_x = bench.Output(kFloat, shape),
                            .grad_gamma = bench.Filled(kFloat, {columns}, 0)};
  if (kind == NormKind::kLayer) {
    backward.grad_beta = bench.Filled(kFloat, {columns}, 0);
  }
  bench.ops().NormBackward(backward);
  // A small step: a row of few elements is strongly curved.
  ExpectGradient(bench, {.variable = forward.x, .gradient = backward.grad_x, .loss = loss, .step = 2e-3F});
  ExpectGradient(bench, {.variable = forward.gamma, .gradient = backward.grad_gamma, .loss = loss});
  if (kind == NormKind::kLayer) {
    ExpectGradient(bench, {.variable = forward.beta, .gradient = backward.grad_beta, .loss = loss});
  }
}

class HeadNormGradients : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(EachAndTogether, HeadNormGradients, testing::Bool());

TEST_P(HeadNormGradients, EqualFiniteDifferences) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  HeadNormArgs args{.heads = 4, .kv_heads = 2, .head_size = 5, .together = GetParam(), .gain_offset = 1};
  args.x = bench.Normal(kFloat, {3, args.width()}, "x");
  args.query_gain = bench.Normal(kFloat, {args.group_width(0)}, "query gain");
  args.key_gain = bench.Normal(kFloat, {args.group_width(args.groups() - 1)}, "key gain");
  args.sums = bench.Output(kFloat, {3, args.groups()});
  args.out = bench.Output(kFloat, args.x.shape);
  args.grad_out = bench.Normal(kFloat, args.x.shape, "grad");
  args.products = bench.Output(kFloat, args.sums.shape);
  args.grad_x = bench.Output(kFloat, args.x.shape);
  args.grad_query_gain = bench.Filled(kFloat, args.query_gain.shape, 0);
  args.grad_key_gain = bench.Filled(kFloat, args.key_gain.shape, 0);
  const auto loss = [&] {
    bench.ops().HeadNormSums(args);
    bench.ops().HeadNormForward(args);
    return Dot(bench.Read(args.out), bench.Read(args.grad_out));
  };
  loss();
  bench.ops().HeadNormProducts(args);
  bench.ops().HeadNormBackward(args);
  ExpectGradient(bench, {.variable = args.x, .gradient = args.grad_x, .loss = loss, .step = 2e-3F});
  ExpectGradient(bench, {.variable = args.query_gain, .gradient = args.grad_query_gain, .loss = loss});
  ExpectGradient(bench, {.variable = args.key_gain, .gradient = args.grad_key_gain, .loss = loss});
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormGradients,
                         testing::Combine(testing::Values(NormKind::kLayer, NormKind::kRms),
                                          testing::Values(5, 16, 37)));

TEST(ResidualNorm, TheSumMayBeTheInputAndFeedsTheNorm) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Shape shape{4, 9};
  ResidualNormArgs args{.x = bench.Normal(kFloat, shape, "x"),
                        .branch = bench.Normal(kFloat, shape, "branch"),
                        .bias = bench.Normal(kFloat, {9}, "bias"),
                        .kind = NormKind::kRms,
                        .gamma = bench.Filled(kFloat, {9}, 1),
                        .normed = bench.Output(kFloat, shape),
                        .statistics = bench.Output(kFloat, {2, 4})};
  args.sum = args.x;
  std::vector<float> expected = bench.Read(args.x);
  const std::vector<float> branch = bench.Read(args.branch);
  const std::vector<float> bias = bench.Read(args.bias);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] += branch[i] + bias[i % 9];
  }
  bench.ops().ResidualNormForward(args);
  EXPECT_LT(RelativeDifference(bench.Read(args.x), expected), 1e-6);
  const std::vector<float> statistics = bench.Read(args.statistics);
  for (std::size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(statistics[row], 0) << "the mean of an RMS norm";
    double squares = 0;
    for (std::size_t i = 0; i < 9; ++i) {
      squares += expected[row * 9 + i] * expected[row * 9 + i];
    }
    EXPECT_NEAR(statistics[4 + row], 1 / std::sqrt(squares / 9 + 1e-5), 1e-5);
    EXPECT_NEAR(bench.Read(args.normed)[row * 9], expected[row * 9] * statistics[4 + row], 1e-5);
  }
}

TEST(ResidualNorm, DropoutMatchesTheStandaloneOperation) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Shape shape{6, 11};
  const Dropout dropout{.probability = 0.4F, .key = 9, .first_element = 123};
  const Tensor branch = bench.Normal(kFloat, shape, "branch");
  const Tensor dropped = bench.Output(kFloat, shape);
  const Tensor sum = bench.Output(kFloat, shape);
  bench.ops().ApplyDropout(dropped, branch, dropout);
  bench.ops().ResidualNormForward(
      {.x = bench.Filled(kFloat, shape, 0), .branch = branch, .dropout = dropout, .sum = sum});
  EXPECT_EQ(bench.Read(sum), bench.Read(dropped));
}

TEST(ResidualNorm, GradientMayOverwriteEitherInput) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Shape shape{3, 21};
  const Tensor statistics = bench.Output(kFloat, {2, 3});
  const Tensor gamma = bench.Normal(kFloat, {21}, "gamma");
  const Tensor x = bench.Normal(kFloat, shape, "x");
  bench.ops().ResidualNormForward(
      {.x = x, .gamma = gamma, .normed = bench.Output(kFloat, shape), .statistics = statistics});
  std::vector<std::vector<float>> results;
  for (const int alias : {0, 1, 2}) {
    NormBackwardArgs args{.grad_normed = bench.Normal(kFloat, shape, "grad"),
                          .x = x,
                          .statistics = statistics,
                          .gamma = gamma,
                          .grad_residual = bench.Normal(kFloat, shape, "residual"),
                          .grad_x = bench.Output(kFloat, shape),
                          .grad_gamma = bench.Filled(kFloat, {21}, 0)};
    args.grad_x = alias == 1 ? args.grad_normed : alias == 2 ? args.grad_residual : args.grad_x;
    bench.ops().NormBackward(args);
    results.push_back(bench.Read(args.grad_x));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Dropout, MaskIsAFunctionOfTheGlobalPosition) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor whole = bench.Filled(kFloat, {1000}, 1);
  const Dropout dropout{.probability = 0.25F, .key = 42, .first_element = 50};
  const Tensor part = bench.Copy(whole.Range(300, 200));
  bench.ops().ApplyDropout(whole, whole, dropout);
  bench.ops().ApplyDropout(part, part, {.probability = 0.25F, .key = 42, .first_element = 350});
  const std::vector<float> values = bench.Read(whole);
  EXPECT_EQ(bench.Read(part), bench.Read(whole.Range(300, 200)));
  int dropped = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], RandomUniform(42, 50 + i) < 0.25F ? 0.0F : 1.0F / 0.75F);
    dropped += values[i] == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 250, 60);
}

TEST(Dropout, ProbabilityZeroCopies) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor in = bench.Normal(DType::kBFloat16, {33}, "in");
  const Tensor out = bench.Output(DType::kBFloat16, {33});
  bench.ops().ApplyDropout(out, in, {});
  EXPECT_EQ(bench.Read(out), bench.Read(in));
}

}  // namespace
}  // namespace trireme
