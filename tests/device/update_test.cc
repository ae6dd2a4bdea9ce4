#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/random_normal.h"
#include "device/workbench.h"

namespace trireme {
namespace {

constexpr DType kHalf = DType::kBFloat16;

TEST(AdamW, FollowsTheFormulaInDouble) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const UpdateRange range{.weight = bench.Normal(kFloat, {37}, "weight"),
                          .first_moment = bench.Filled(kFloat, {37}, 0),
                          .second_moment = bench.Filled(kFloat, {37}, 0),
                          .gradient = bench.Normal(kFloat, {37}, "gradient"),
                          .weight_decay = 0.1F};
  const std::vector<float> gradient = bench.Read(range.gradient);
  const std::vector<float> start = bench.Read(range.weight);
  std::vector<double> master(start.begin(), start.end());
  std::vector<double> first(37, 0);
  std::vector<double> second(37, 0);
  for (int step = 1; step <= 5; ++step) {
    const UpdateArgs args{.learning_rate = 0.01F, .step = step, .gradient_scale = 0.25F};
    bench.ops().Update({&range, 1}, args);
    for (std::size_t i = 0; i < 37; ++i) {
      const double g = 0.25 * gradient[i];
      first[i] = 0.9 * first[i] + 0.1 * g;
      second[i] = 0.95 * second[i] + 0.05 * g * g;
      const double m = first[i] / (1 - std::pow(0.9, step));
      const double v = second[i] / (1 - std::pow(0.95, step));
      master[i] -= 0.01 * (m / (std::sqrt(v) + 1e-8) + 0.1 * master[i]);
    }
  }
  const std::vector<float> result = bench.Read(range.weight);
  for (std::size_t i = 0; i < 37; ++i) {
    EXPECT_NEAR(result[i], master[i], 2e-6);
  }
}

// One range in both forms: fp32 weights, and halves that make the same masters.
struct BothForms {
  UpdateRange whole;
  UpdateRange halved;
};

BothForms SameMasters(Workbench& bench, std::int64_t count) {
  const auto range = [&] {
    return UpdateRange{.first_moment = bench.Normal(kFloat, {count}, "first", 0.1F),
                       .second_moment = bench.Filled(kFloat, {count}, 0.015625F),
                       .gradient = bench.Normal(kFloat, {count}, "gradient"),
                       .weight_decay = 0.1F};
  };
  BothForms forms{range(), range()};
  forms.whole.weight = bench.Normal(kFloat, {count}, "weight");
  bench.ops().Scale(forms.whole.weight, 1.0007F);  // lower halves that are not 0
  forms.halved.weight = bench.Output(kHalf, {count});
  forms.halved.low = bench.Filled(DType::kUInt16, {count}, 1);
  bench.ops().Split(forms.halved.weight, forms.halved.low, forms.whole.weight);
  return forms;
}

// But for the last bits: a compiler may fuse other products with sums in each form. Without their lower halves masters
// would be 4e-3 apart.
TEST(AdamW, UpdatesHalvesAsItUpdatesWholeMasters) {
  for (const std::int64_t count : {1, 70, 4099}) {
    const auto cpu = CpuForTest();
    Workbench bench(*cpu);
    const BothForms forms = SameMasters(bench, count);
    const Tensor joined = bench.Output(kFloat, {count});
    for (int step = 1; step <= 20; ++step) {
      const UpdateArgs args{.learning_rate = 1e-3F, .step = step, .gradient_scale = 0.25F};
      bench.ops().Update({&forms.whole, 1}, args);
      bench.ops().Update({&forms.halved, 1}, args);
    }
    bench.ops().Join(joined, forms.halved.weight, forms.halved.low);
    const std::vector<float> masters = bench.Read(forms.whole.weight);
    const std::vector<float> together = bench.Read(joined);
    const std::vector<float> weights = bench.Read(forms.halved.weight);
    for (std::size_t i = 0; i < masters.size(); ++i) {
      EXPECT_NEAR(together[i], masters[i], std::abs(masters[i]) * 1e-5F + 1e-7F);
      EXPECT_NEAR(weights[i], masters[i], std::abs(masters[i]) * 0x1p-8F);
    }
  }
}

TEST(AdamW, ANanInHalvesStaysOneInBoth) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const BothForms forms = SameMasters(bench, 9);
  bench.Write(forms.halved.gradient, std::vector<float>(9, std::nanf("")));
  bench.ops().Update({&forms.halved, 1}, {.learning_rate = 1e-3F});
  const Tensor joined = bench.Filled(kFloat, {9}, 0);
  bench.ops().Join(joined, forms.halved.weight, forms.halved.low);
  for (const Tensor& values : {forms.halved.weight, joined}) {
    for (const float value : bench.Read(values)) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

// A range with moments of `moments`, which bf16 holds too.
UpdateRange WithMoments(Workbench& bench, DType moments, std::int64_t count) {
  return {.weight = bench.Normal(kFloat, {count}, "weight"),
          .first_moment = bench.Normal(moments, {count}, "first", 0.1F),
          .second_moment = bench.Filled(moments, {count}, 1),
          .gradient = bench.Normal(kFloat, {count}, "gradient")};
}

TEST(AdamWInHalfMoments, UpdatesWithTheMomentsBeforeTheyAreRounded) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const UpdateRange whole = WithMoments(bench, kFloat, 4099);
  const UpdateRange half = WithMoments(bench, kHalf, 4099);
  for (const UpdateRange& range : {whole, half}) {
    bench.ops().Update({&range, 1}, {.learning_rate = 1e-3F, .step = 5});
  }
  const std::vector<float> whole_weights = bench.Read(whole.weight);
  const std::vector<float> half_weights = bench.Read(half.weight);
  for (std::size_t i = 0; i < whole_weights.size(); ++i) {  // with rounded moments up to 4e-6 apart
    EXPECT_NEAR(half_weights[i], whole_weights[i], std::abs(whole_weights[i]) * 2.5e-7F + 1e-7F);
  }
  const std::vector<float> expected = bench.Read(whole.first_moment);
  const std::vector<float> first = bench.Read(half.first_moment);
  EXPECT_NE(first, expected);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(first[i], expected[i], std::abs(expected[i]) * 0x1p-7F);
  }
}

// Cuts, as layouts make them, and threads change no bit; another step does.
TEST(AdamWInHalfMoments, RoundsEqualElementsAlikeWhereverTheyLie) {
  const auto one = CpuForTest(1);
  const auto two = CpuForTest(2);
  Workbench bench(*one);
  Workbench other(*two);
  const UpdateRange whole = WithMoments(bench, kHalf, 100'003);
  const UpdateRange cut = WithMoments(other, kHalf, 100'003);
  const UpdateRange later = WithMoments(bench, kHalf, 100'003);
  std::vector<UpdateRange> parts;
  for (const auto& [first, last] : {std::pair{0, 7}, {7, 40'000}, {40'000, 100'003}}) {
    const auto part = [first = first, count = last - first](const Tensor& tensor) {
      return tensor.Range(first, count);
    };
    parts.push_back({.weight = part(cut.weight),
                     .first_moment = part(cut.first_moment),
                     .second_moment = part(cut.second_moment),
                     .gradient = part(cut.gradient)});
  }
  bench.ops().Update({&whole, 1}, {.step = 2});
  other.ops().Update(parts, {.step = 2});
  bench.ops().Update({&later, 1}, {.step = 3});
  EXPECT_EQ(bench.Read(whole.first_moment), other.Read(cut.first_moment));
  EXPECT_EQ(bench.Read(whole.second_moment), other.Read(cut.second_moment));
  EXPECT_NE(bench.Read(whole.second_moment), bench.Read(later.second_moment));
}

// Gradients of half their former size: 0.999 * 1 + 0.001 * 0.25 is nearer to 1 than to any other bfloat16, so that
// rounding to nearest would leave the moment at 1 for ever.
TEST(AdamWInHalfMoments, ASecondMomentFollowsGradientsThatShrink) {
  constexpr int kCount = 1024;
  constexpr int kSteps = 1000;
  ASSERT_EQ(static_cast<float>(BFloat16(0.99925F)), 1.0F);
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const UpdateRange range{.weight = bench.Normal(kFloat, {kCount}, "weight"),
                          .first_moment = bench.Filled(kHalf, {kCount}, 0),
                          .second_moment = bench.Filled(kHalf, {kCount}, 1),
                          .gradient = bench.Filled(kFloat, {kCount}, 0)};
  for (int step = 1; step <= kSteps; ++step) {
    // Differs among elements by a millionth: elements that are all alike would be rounded alike.
    std::vector<float> gradient(kCount);
    for (int i = 0; i < kCount; ++i) {
      gradient[static_cast<std::size_t>(i)] = 0.5F * (1 + 1e-6F * static_cast<float>(i));
    }
    bench.Write(range.gradient, gradient);
    bench.ops().Update({&range, 1}, {.beta2 = 0.999F, .step = step});
  }
  double sum = 0;
  for (const float value : bench.Read(range.second_moment)) {
    EXPECT_GT(value, 0);
    sum += value;
  }
  const double expected = 0.25 + 0.75 * std::pow(0.999, kSteps);
  EXPECT_NEAR(sum / kCount / expected, 1, 0.01);
}

TEST(AdamWInHalfMoments, ZeroesStayAndNansShow) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  UpdateRange range = WithMoments(bench, kHalf, 9);
  for (const Tensor& tensor : {range.gradient, range.first_moment, range.second_moment}) {
    bench.ops().Fill(tensor, 0);
  }
  bench.ops().Update({&range, 1}, {});
  EXPECT_EQ(bench.Read(range.first_moment), std::vector<float>(9, 0));
  EXPECT_EQ(bench.Read(range.second_moment), std::vector<float>(9, 0));
  bench.Write(range.gradient, std::vector<float>(9, std::nanf("")));
  bench.ops().Update({&range, 1}, {});
  for (const Tensor& tensor : {range.first_moment, range.second_moment}) {
    for (const float value : bench.Read(tensor)) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(SumOfSquares, IsExactBeyondFloatAndShowsNonFiniteValues) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  std::vector<float> values(100000, 0.001F);
  values[0] = 1000;
  const std::vector<Tensor> ranges = {bench.From(kFloat, {100000}, values), bench.Output(kFloat, {0}),
                                      bench.From(kFloat, {2}, {std::numeric_limits<float>::infinity(), 1}),
                                      bench.From(kFloat, {2}, {std::nanf(""), 1})};
  const Tensor sums = bench.Output(kFloat, {4});
  bench.ops().SumOfSquares(ranges, sums);
  const std::vector<float> result = bench.Read(sums);
  EXPECT_FLOAT_EQ(result[0], 1000000.1F);
  EXPECT_EQ(result[1], 0);
  EXPECT_TRUE(std::isinf(result[2]));
  EXPECT_TRUE(std::isnan(result[3]));
}

TEST(SumOfSquares, OfLongRangesIsThatOfTheirPieces) {
  constexpr std::int64_t kLong = (5 << 20) / 2;  // two pieces and a half
  for (const int threads : {1, 3}) {
    for (const DType dtype : {kFloat, kHalf}) {
      const auto cpu = CpuForTest(threads);
      Workbench bench(*cpu);
      std::vector<float> values(kLong, 1);
      values[1 << 20] = 2;  // a piece's first, and the last of all
      values.back() = 3;
      const std::vector<Tensor> ranges = {bench.Filled(dtype, {7}, 1), bench.Output(dtype, {0}),
                                          bench.From(dtype, {kLong}, values), bench.Filled(dtype, {5}, 2)};
      const Tensor sums = bench.Output(kFloat, {4});
      bench.ops().SumOfSquares(ranges, sums);
      EXPECT_EQ(bench.Read(sums), (std::vector<float>{7, 0, kLong + 3 + 8, 20})) << threads << " threads";
    }
  }
}

TEST(Reduce, SumsInFloatAndRoundsOnce) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  // 256 + 1 rounds back to 256 in bf16, but 256 + 1 + 1 does not when rounded once.
  const Tensor large = bench.Filled(kHalf, {1500}, 256);
  const Tensor one = bench.Filled(kHalf, {1500}, 1);
  const std::array<const void*, 3> sources{one.data, large.data, one.data};
  bench.ops().Reduce(large, sources);
  EXPECT_EQ(bench.Read(large), std::vector<float>(1500, 258));
}

TEST(Reduce, MaximumKeepsNan) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const float nan = std::nanf("");
  const Tensor to = bench.Output(kFloat, {4});
  const Tensor a = bench.From(kFloat, {4}, {1, nan, 3, -1});
  const Tensor b = bench.From(kFloat, {4}, {2, 5, nan, -2});
  const std::array<const void*, 2> sources{a.data, b.data};
  bench.ops().Reduce(to, sources, true);
  const std::vector<float> result = bench.Read(to);
  EXPECT_EQ(result[0], 2);
  EXPECT_TRUE(std::isnan(result[1]));
  EXPECT_TRUE(std::isnan(result[2]));
  EXPECT_EQ(result[3], -1);
}

TEST(BiasGradient, AddsColumnSums) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor grad_bias = bench.From(kFloat, {2}, {10, 20});
  bench.ops().BiasGradient(bench.From(kFloat, {3, 2}, {1, 2, 3, 4, 5, 6}), grad_bias);
  EXPECT_EQ(bench.Read(grad_bias), (std::vector<float>{19, 32}));
}

TEST(DrawNormal, DrawsByGlobalPosition) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor to = bench.Filled(kFloat, {3, 5}, 0);
  bench.ops().DrawNormal(to, {.key = 9, .first_element = 100, .stride = 40, .deviation = 0.5F});
  const std::vector<float> values = bench.Read(to);
  for (std::uint64_t row = 0; row < 3; ++row) {
    for (std::uint64_t column = 0; column < 5; ++column) {
      EXPECT_EQ(values[row * 5 + column], 0.5F * RandomNormal(9, 100 + 40 * row + column));
    }
  }
}

TEST(Elementwise, CopyConvertsBothWaysAndRoundsToEven) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor wide = bench.From(kFloat, {3}, {1.00390625F, 1.01171875F, -3});
  const Tensor narrow = bench.Output(kHalf, {3});
  bench.ops().Copy(narrow, wide);
  EXPECT_EQ(bench.Read(narrow), (std::vector<float>{1, 1.015625F, -3}));
  const Tensor back = bench.Output(kFloat, {3});
  bench.ops().Copy(back, narrow);
  EXPECT_EQ(bench.Read(back), bench.Read(narrow));
  const Tensor integers = bench.Integers({5}, "integers", -100, 100);
  const Tensor copied = bench.Filled(DType::kInt32, {5}, 0);
  bench.ops().Copy(copied, integers);
  EXPECT_EQ(bench.Read(copied), bench.Read(integers));
}

TEST(Elementwise, AddScaleAndFill) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor sum = bench.From(kFloat, {2}, {1, 2});
  bench.ops().Add(sum, bench.From(kHalf, {2}, {3, 4}), 0.5F);
  EXPECT_EQ(bench.Read(sum), (std::vector<float>{2.5F, 4}));
  bench.ops().Scale(sum, -2);
  EXPECT_EQ(bench.Read(sum), (std::vector<float>{-5, -8}));
  bench.ops().Fill(sum, 9);
  EXPECT_EQ(bench.Read(sum), (std::vector<float>{9, 9}));
}

}  // namespace
}  // namespace trireme
