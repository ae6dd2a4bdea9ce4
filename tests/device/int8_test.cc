// Int8 blocks against a plain account of their rule, element by element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/int8_block.h"
#include "device/workbench.h"
#include "message_of.h"

namespace trireme {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::int64_t kNumbers = 5 * kInt8Block;

std::vector<float> ThereAndBack(Workbench& bench, const Tensor& from) {
  const Tensor packed = bench.Filled(DType::kInt32, {PackedWords(from.count())}, 0);
  const Tensor to = bench.Output(DType::kFloat32, {from.count()});
  bench.ops().PackInt8(packed, from);
  bench.ops().UnpackInt8(to, packed, {});
  return bench.Read(to);
}

TEST(Int8Blocks, ComeBackAsTheNearestOf255NumbersOfTheirBlock) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const Tensor from = bench.Normal(dtype, {kNumbers}, "from");
    const std::vector<float> values = bench.Read(from);
    const std::vector<float> back = ThereAndBack(bench, from);
    for (std::int64_t block = 0; block < kNumbers; block += kInt8Block) {
      float largest = 0;
      for (std::int64_t i = block; i < block + kInt8Block; ++i) {
        largest = std::max(largest, std::abs(values[static_cast<std::size_t>(i)]));
      }
      for (std::int64_t i = block; i < block + kInt8Block; ++i) {
        const float value = values[static_cast<std::size_t>(i)];
        EXPECT_EQ(back[static_cast<std::size_t>(i)], std::nearbyint(value * (127 / largest)) * (largest / 127)) << i;
        EXPECT_NEAR(back[static_cast<std::size_t>(i)], value, largest / 253);
      }
    }
  }
}

TEST(Int8Blocks, PartsAreSummedInTheirOrderAndAddedOnce) {
  const auto cpu = CpuForTest(2);
  Workbench bench(*cpu);
  constexpr int kParts = 3;
  const Tensor packed = bench.Filled(DType::kInt32, {kParts * PackedWords(kNumbers)}, 0);
  std::vector<float> sum(kNumbers, 0.0F);
  for (int part = 0; part < kParts; ++part) {
    const Tensor from = bench.Normal(DType::kFloat32, {kNumbers}, "part" + std::to_string(part));
    bench.ops().PackInt8(packed.Range(part * PackedWords(kNumbers), PackedWords(kNumbers)), from);
    const std::vector<float> back = ThereAndBack(bench, from);
    std::transform(sum.begin(), sum.end(), back.begin(), sum.begin(), std::plus<>());
  }
  const Tensor to = bench.Normal(DType::kFloat32, {kNumbers}, "to");
  std::vector<float> expected = bench.Read(to);
  std::transform(expected.begin(), expected.end(), sum.begin(), expected.begin(), std::plus<>());
  bench.ops().UnpackInt8(to, packed, {.parts = kParts, .add = true});
  EXPECT_EQ(bench.Read(to), expected);
  bench.ops().UnpackInt8(to, packed, {.parts = kParts});
  EXPECT_EQ(bench.Read(to), sum);
}

// A gradient that overflowed must be seen after the reduction, and in its own block alone.
TEST(Int8Blocks, ANumberThatIsNotFiniteMakesItsBlockNaN) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(kNumbers, 0.5F);
    values[kInt8Block + 3] = bad;
    const std::vector<float> back = ThereAndBack(bench, bench.From(DType::kFloat32, {kNumbers}, values));
    for (std::size_t i = 0; i < back.size(); ++i) {
      EXPECT_EQ(std::isnan(back[i]), i / kInt8Block == 1) << i;
    }
  }
}

TEST(Int8Blocks, WhatIsTooSmallForAScaleIsZero) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  for (const float small : {0.0F, 1e-38F, -1e-44F}) {
    EXPECT_THAT(ThereAndBack(bench, bench.Filled(DType::kFloat32, {kNumbers}, small)), Each(0.0F));
  }
}

TEST(Int8Blocks, HaveWholeBlocksAlone) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor packed = bench.Filled(DType::kInt32, {kInt8Words}, 0);
  EXPECT_THAT(test::MessageOf([&] { bench.ops().PackInt8(packed, bench.Filled(DType::kFloat32, {65}, 0)); }),
              HasSubstr("65 numbers are no multiple of 64"));
  EXPECT_THAT(
      test::MessageOf([&] { bench.ops().UnpackInt8(bench.Filled(DType::kBFloat16, {64}, 0), packed, {.add = true}); }),
      HasSubstr("added to fp32"));
}

}  // namespace
}  // namespace trireme
