#include "device/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>

#include "device/workbench.h"

namespace trireme {
namespace {

double At(const std::vector<float>& matrix, const Shape& shape, bool transposed, std::int64_t row,
          std::int64_t column) {
  return matrix[static_cast<std::size_t>(transposed ? column * shape[1] + row : row * shape[1] + column)];
}

// The product in double, without bias, epilogue or accumulation.
std::vector<float> NaiveProduct(Workbench& bench, const MatmulArgs& args) {
  const std::vector<float> a = bench.Read(args.a);
  const std::vector<float> b = bench.Read(args.b);
  const std::int64_t depth = args.a.shape[args.transpose_a ? 0 : 1];
  std::vector<float> product;
  for (std::int64_t i = 0; i < args.c.shape[0]; ++i) {
    for (std::int64_t j = 0; j < args.c.shape[1]; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += At(a, args.a.shape, args.transpose_a, i, k) * At(b, args.b.shape, args.transpose_b, k, j);
      }
      product.push_back(static_cast<float>(sum));
    }
  }
  return product;
}

TEST(Matmul, EqualsTheNaiveProduct) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {5, 1, 9}, {6, 32, 4}, {7, 33, 300}, {97, 130, 61}}) {
    for (const int transposes : {0, 1, 2, 3}) {
      const bool ta = (transposes & 1) != 0;
      const bool tb = (transposes & 2) != 0;
      const MatmulArgs args{.a = bench.Normal(kFloat, ta ? Shape{k, m} : Shape{m, k}, "a"),
                            .b = bench.Normal(kFloat, tb ? Shape{n, k} : Shape{k, n}, "b"),
                            .c = bench.Output(kFloat, {m, n}),
                            .transpose_a = ta,
                            .transpose_b = tb};
      const std::vector<float> expected = NaiveProduct(bench, args);
      bench.ops().Matmul(args);
      EXPECT_LT(RelativeDifference(bench.Read(args.c), expected), 1e-5)
          << m << ' ' << n << ' ' << k << ' ' << transposes;
    }
  }
}

TEST(Matmul, AccumulateAddsToTheTarget) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const std::int64_t size : {3, 50}) {
    const Tensor c = bench.Filled(kFloat, {size, size}, 10);
    const MatmulArgs args{.a = bench.Normal(kFloat, {size, size}, "a"),
                          .b = bench.Normal(kFloat, {size, size}, "b"),
                          .c = c,
                          .transpose_a = true,
                          .accumulate = true};
    std::vector<float> expected = NaiveProduct(bench, args);
    for (float& value : expected) {
      value = 10 + 2 * value;
    }
    bench.ops().Matmul(args);
    bench.ops().Matmul(args);
    EXPECT_LT(RelativeDifference(bench.Read(c), expected), 1e-5);
  }
}

TEST(Matmul, GeluKeepsTheInputAndItsGradientInvertsTheChain) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const std::int64_t n : {4, 40}) {
    const MatmulArgs forward{.a = bench.Normal(kFloat, {5, 24}, "a"),
                             .b = bench.Normal(kFloat, {n, 24}, "b", 0.25F),
                             .c = bench.Output(kFloat, {5, n}),
                             .transpose_b = true,
                             .bias = bench.Normal(kFloat, {n}, "bias"),
                             .epilogue = Epilogue::kGelu,
                             .auxiliary = bench.Output(kFloat, {5, n})};
    const std::vector<float> weights = bench.Read(bench.Normal(kFloat, {5, n}, "weights"));
    const auto loss = [&] {
      bench.ops().Matmul(forward);
      return Dot(bench.Read(forward.c), weights);
    };
    loss();
    // d loss / d z = weights * gelu'(z): the product of the weights with an identity.
    std::vector<float> identity(static_cast<std::size_t>(n * n), 0);
    for (std::int64_t i = 0; i < n; ++i) {
      identity[static_cast<std::size_t>(i * n + i)] = 1;
    }
    const Tensor grad_z = bench.Output(kFloat, {5, n});
    bench.ops().Matmul({.a = bench.From(kFloat, {5, n}, weights),
                        .b = bench.From(kFloat, {n, n}, identity),
                        .c = grad_z,
                        .epilogue = Epilogue::kGeluGradient,
                        .auxiliary = forward.auxiliary});
    const Tensor grad_bias = bench.Filled(kFloat, {n}, 0);
    const Tensor grad_a = bench.Output(kFloat, {5, 24});
    const Tensor grad_b = bench.Filled(kFloat, {n, 24}, 0);
    bench.ops().BiasGradient(grad_z, grad_bias);
    bench.ops().Matmul({.a = grad_z, .b = forward.b, .c = grad_a});
    bench.ops().Matmul({.a = grad_z, .b = forward.a, .c = grad_b, .transpose_a = true, .accumulate = true});
    ExpectGradient(bench, {.variable = forward.bias, .gradient = grad_bias, .loss = loss});
    ExpectGradient(bench, {.variable = forward.a, .gradient = grad_a, .loss = loss, .stride = 7});
    ExpectGradient(bench, {.variable = forward.b, .gradient = grad_b, .loss = loss, .stride = 31});
  }
}

TEST(Matmul, AnEmptyInnerDimGivesZeroOrLeavesTheSum) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  MatmulArgs args{
      .a = bench.Output(kFloat, {2, 0}), .b = bench.Output(kFloat, {0, 3}), .c = bench.Output(kFloat, {2, 3})};
  bench.ops().Matmul(args);
  EXPECT_EQ(bench.Read(args.c), std::vector<float>(6, 0));
  args.c = bench.Filled(kFloat, {2, 3}, 4);
  args.accumulate = true;
  bench.ops().Matmul(args);
  EXPECT_EQ(bench.Read(args.c), std::vector<float>(6, 4));
}

TEST(Matmul, NanReachesTheResult) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const std::int64_t size : {4, 64}) {
    std::vector<float> values(static_cast<std::size_t>(size * size), 1);
    values[1] = std::nanf("");
    const MatmulArgs args{.a = bench.From(kFloat, {size, size}, values),
                          .b = bench.Filled(kFloat, {size, size}, 0),
                          .c = bench.Filled(kFloat, {size, size}, 0)};
    bench.ops().Matmul(args);
    const std::vector<float> c = bench.Read(args.c);
    EXPECT_TRUE(std::isnan(c[0]));
    EXPECT_EQ(c[static_cast<std::size_t>(size)], 0);
  }
}

}  // namespace
}  // namespace trireme
