#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu/vector_math.h"
#include "device/workbench.h"

namespace trireme {
namespace {

TEST(VectorMath, ExpIsWithinAMillionthAndKeepsSpecialValues) {
  for (double x = -87; x < 88; x += 0.0137) {
    const auto y = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(y));
    EXPECT_NEAR(VectorExp(y) / exact, 1, 5e-7) << x;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(VectorExp(0), 1);
  EXPECT_EQ(VectorExp(-infinity), 0);
  EXPECT_EQ(VectorExp(-1e30F), 0);
  EXPECT_EQ(VectorExp(infinity), infinity);
  EXPECT_TRUE(std::isnan(VectorExp(std::nanf(""))));
}

TEST(VectorMath, GeluIsTheTanhForm) {
  for (double x = -9; x < 9; x += 0.01) {
    const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    EXPECT_NEAR(Gelu(static_cast<float>(x)), 0.5 * x * (1 + std::tanh(u)), 1e-6 * (1 + std::abs(x))) << x;
  }
  EXPECT_EQ(Gelu(-100), 0);
  EXPECT_EQ(Gelu(100), 100);
  EXPECT_TRUE(std::isnan(Gelu(std::nanf(""))));
}

TEST(VectorMath, ExactGeluIsTheErrorFunctionsAndTanhIsTanh) {
  for (double x = -9; x < 9; x += 0.01) {
    EXPECT_NEAR(ExactGelu(static_cast<float>(x)), 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))), 2e-6) << x;
    EXPECT_NEAR(VectorTanh(static_cast<float>(x)), std::tanh(x), 1e-6) << x;
  }
  EXPECT_EQ(VectorTanh(100), 1);
  EXPECT_EQ(VectorTanh(-100), -1);
}

TEST(Relu, IsZeroBelowZero) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor z = bench.From(kFloat, {1, 4}, {-2, -0.5F, 0.5F, 3});
  const Tensor out = bench.Output(kFloat, {1, 4});
  const Tensor grad = bench.From(kFloat, {1, 4}, {1, 2, 3, 4});
  const Tensor grad_z = bench.Output(kFloat, {1, 4});
  bench.ops().Run(ActivationForward<Tensor>{.kind = ActivationKind::kRelu, .from = z, .to = out});
  bench.ops().Run(
      ActivationBackward<Tensor>{.kind = ActivationKind::kRelu, .grad_out = grad, .from = z, .grad_from = grad_z});
  EXPECT_EQ(bench.Read(out), (std::vector<float>{0, 0, 0.5F, 3}));
  EXPECT_EQ(bench.Read(grad_z), (std::vector<float>{0, 0, 3, 4}));
}

class ActivationGradients : public testing::TestWithParam<std::tuple<ActivationKind, int>> {};

TEST_P(ActivationGradients, EqualFiniteDifferences) {
  const auto [kind, width] = GetParam();
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const std::int64_t factor = IsGated(kind) ? 2 : 1;
  const Tensor z = bench.Normal(kFloat, {3, factor * width}, "z", 2);
  const Tensor out = bench.Output(kFloat, {3, width});
  const Tensor grad = bench.Normal(kFloat, {3, width}, "grad");
  const Tensor grad_z = bench.Output(kFloat, {3, factor * width});
  bench.ops().Run(ActivationBackward<Tensor>{.kind = kind, .grad_out = grad, .from = z, .grad_from = grad_z});
  ExpectGradient(bench, {.variable = z, .gradient = grad_z, .loss = [&, kind = kind] {
                           bench.ops().Run(ActivationForward<Tensor>{.kind = kind, .from = z, .to = out});
                           return Dot(bench.Read(out), bench.Read(grad));
                         }});
}

TEST_P(ActivationGradients, MayOverwriteTheInput) {
  const auto [kind, width] = GetParam();
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Shape wide{3, (IsGated(kind) ? 2 : 1) * width};
  const Tensor z = bench.Normal(kFloat, wide, "z", 2);
  const Tensor grad = bench.Normal(kFloat, {3, width}, "grad");
  const Tensor grad_z = bench.Output(kFloat, wide);
  bench.ops().Run(ActivationBackward<Tensor>{.kind = kind, .grad_out = grad, .from = z, .grad_from = grad_z});
  bench.ops().Run(ActivationBackward<Tensor>{.kind = kind, .grad_out = grad, .from = z, .grad_from = z});
  EXPECT_EQ(bench.Read(z), bench.Read(grad_z));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ActivationGradients,
                         testing::Combine(testing::Values(ActivationKind::kGelu, ActivationKind::kSwiGlu,
                                                          ActivationKind::kExactGelu, ActivationKind::kGeGlu,
                                                          ActivationKind::kSquaredRelu, ActivationKind::kSilu,
                                                          ActivationKind::kExactGeGlu),
                                          testing::Values(1, 19, 32)));

TEST(Rotary, RotatesPairsByPositionTimesFrequency) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Rotary<Tensor> args{.qkv = bench.Normal(kFloat, {6, 4 * 6}, "qkv"),
                            .sequence = 3,
                            .heads = 2,
                            .kv_heads = 1,
                            .head_size = 6,
                            .theta = 100};
  const std::vector<float> before = bench.Read(args.qkv);
  bench.ops().Run(args);
  const std::vector<float> after = bench.Read(args.qkv);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t head = 0; head < 4; ++head) {
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t first = row * 24 + head * 6 + i;
        const double angle = head < 3 ? static_cast<double>(row % 3) * std::pow(100.0, -static_cast<double>(i) / 3) : 0;
        EXPECT_NEAR(after[first], before[first] * std::cos(angle) - before[first + 3] * std::sin(angle), 1e-5);
        EXPECT_NEAR(after[first + 3], before[first + 3] * std::cos(angle) + before[first] * std::sin(angle), 1e-5);
      }
    }
  }
}

TEST(Rotary, GivenFrequenciesTurnAPartOfEachHead) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const std::vector<double> frequencies = {0.5, 0.01};
  const Rotary<Tensor> args{.qkv = bench.Normal(kFloat, {6, 3 * 6}, "qkv"),
                            .sequence = 3,
                            .heads = 1,
                            .kv_heads = 1,
                            .head_size = 6,
                            .frequencies = frequencies,
                            .magnitude = 2};
  const std::vector<float> before = bench.Read(args.qkv);
  bench.ops().Run(args);
  const std::vector<float> after = bench.Read(args.qkv);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t head = 0; head < 3; ++head) {
      const std::size_t first = row * 18 + head * 6;
      for (std::size_t i = 0; i < 2; ++i) {
        const double angle = static_cast<double>(row % 3) * frequencies[i];
        const double turned = 2 * (before[first + i] * std::cos(angle) - before[first + i + 2] * std::sin(angle));
        EXPECT_NEAR(after[first + i], head < 2 ? turned : before[first + i], 1e-5);
      }
      EXPECT_EQ(after[first + 4], before[first + 4]);
      EXPECT_EQ(after[first + 5], before[first + 5]);
    }
  }
}

TEST(Rotary, InverseIsTheGradient) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  Rotary<Tensor> args{.sequence = 5, .heads = 2, .kv_heads = 1, .head_size = 4};
  const Tensor variable = bench.Normal(kFloat, {5, 16}, "qkv");
  const std::vector<float> weights = bench.Read(bench.Normal(kFloat, {5, 16}, "weights"));
  args.qkv = bench.From(kFloat, {5, 16}, weights);
  args.inverse = true;
  bench.ops().Run(args);
  const Tensor gradient = args.qkv;
  ExpectGradient(bench, {.variable = variable, .gradient = gradient, .loss = [&] {
                           Rotary<Tensor> forward = args;
                           forward.inverse = false;
                           forward.qkv = bench.Copy(variable);
                           bench.ops().Run(forward);
                           return Dot(bench.Read(forward.qkv), weights);
                         }});
}

}  // namespace
}  // namespace trireme
