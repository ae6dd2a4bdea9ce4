#include "base/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "device/workbench.h"

namespace trireme {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

TEST(Float8, KnownCodesAreThoseOfTheFormats) {
  EXPECT_EQ(DecodeFloat8(0x38, kE4M3), 1);
  EXPECT_EQ(DecodeFloat8(0x7e, kE4M3), 448);
  EXPECT_EQ(DecodeFloat8(0x01, kE4M3), 0x1p-9F);
  EXPECT_EQ(DecodeFloat8(0x3c, kE5M2), 1);
  EXPECT_EQ(DecodeFloat8(0x7b, kE5M2), 57344);
  EXPECT_EQ(DecodeFloat8(0x81, kE5M2), -0x1p-16F);
  EXPECT_EQ(DecodeFloat8(0x7c, kE5M2), kFloatInfinity);
  EXPECT_TRUE(std::isnan(DecodeFloat8(0x7f, kE4M3)));
}

TEST(Float8, EveryCodeComesBack) {
  for (const DType format : {kE4M3, kE5M2}) {
    for (int code = 0; code < 256; ++code) {
      const float value = DecodeFloat8(static_cast<std::uint8_t>(code), format);
      if (std::isfinite(value)) {
        EXPECT_EQ(EncodeFloat8(value, format), code) << Name(format);
      }
    }
  }
}

TEST(Float8, ValuesGoToTheNearestCodeAndTiesToEven) {
  for (const DType format : {kE4M3, kE5M2}) {
    for (std::uint8_t code = 0; DecodeFloat8(code + 1, format) <= LargestFloat8(format); ++code) {
      const float low = DecodeFloat8(code, format);
      const float high = DecodeFloat8(code + 1, format);
      const float middle = (low + high) / 2;
      EXPECT_EQ(EncodeFloat8(middle, format), code % 2 == 0 ? code : code + 1) << middle;
      EXPECT_EQ(EncodeFloat8(std::nextafter(middle, 0.0F), format), code) << middle;
      EXPECT_EQ(EncodeFloat8(std::nextafter(middle, kFloatInfinity), format), code + 1) << middle;
    }
    EXPECT_EQ(DecodeFloat8(EncodeFloat8(1e9F, format), format), LargestFloat8(format));
    EXPECT_EQ(DecodeFloat8(EncodeFloat8(-kFloatInfinity, format), format), -LargestFloat8(format));
    EXPECT_TRUE(std::isnan(DecodeFloat8(EncodeFloat8(NAN, format), format)));
  }
}

TEST(Float8, TheScaleIsTheSmallestPowerOfTwoThatFits) {
  for (const DType format : {kE4M3, kE5M2}) {
    for (const float magnitude : {1e-20F, 3e-5F, 1.0F, 448.0F, 448.5F, 57344.0F, 60000.0F, 1e20F}) {
      const float scale = ScaleForFloat8(magnitude, format);
      EXPECT_EQ(std::ldexp(1.0F, std::ilogb(scale)), scale);
      EXPECT_LE(magnitude / scale, LargestFloat8(format)) << magnitude;
      EXPECT_GT(magnitude / (scale / 2), LargestFloat8(format)) << magnitude;
    }
    EXPECT_EQ(ScaleForFloat8(0, format), 1);
    EXPECT_TRUE(std::isnan(ScaleForFloat8(kFloatInfinity, format)));
  }
}

TEST(Quantize, ANumberThatIsNotFiniteSpoilsTheProduct) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  std::vector<float> values(256, 1);
  values[17] = NAN;
  const Tensor from = bench.From(DType::kFloat32, {16, 16}, values);
  const Tensor rows = bench.Output(kE4M3, {16, 16});
  const Tensor scale = bench.Output(DType::kFloat32, {1});
  bench.ops().Quantize({.from = from, .rows = rows, .scale = scale});
  const Tensor c = bench.Filled(DType::kFloat32, {16, 16}, 0);
  bench.ops().Matmul({.a = rows, .b = rows, .c = c, .transpose_b = true, .scale_a = scale, .scale_b = scale});
  EXPECT_TRUE(std::isnan(bench.Read(c)[0]));
}

TEST(Quantize, WrongOperandsOfAnFp8ProductAreNamed) {
  const auto cpu = CpuForTest();
  Workbench bench(*cpu);
  const Tensor a = bench.Filled(kE5M2, {16, 32}, 1);
  const Tensor b = bench.Filled(kE4M3, {48, 32}, 1);
  const Tensor c = bench.Output(DType::kBFloat16, {16, 48});
  const Tensor one = bench.Filled(DType::kFloat32, {1}, 1);
  const MatmulArgs good{.a = a, .b = b, .c = c, .transpose_b = true, .scale_a = one, .scale_b = one};
  EXPECT_NO_THROW(bench.ops().Matmul(good));
  MatmulArgs bad = good;
  bad.scale_b = {};
  EXPECT_THROW(bench.ops().Matmul(bad), Error);
  bad = good;
  bad.b = bench.Filled(kE5M2, {48, 32}, 1);
  EXPECT_THROW(bench.ops().Matmul(bad), Error);
  bad = good;
  bad.b = bench.Filled(kE4M3, {32, 48}, 1);
  bad.transpose_b = false;
  EXPECT_THROW(bench.ops().Matmul(bad), Error);
  bad = good;
  bad.a = bench.Filled(kE5M2, {8, 32}, 1);
  bad.c = bench.Output(DType::kBFloat16, {8, 48});
  EXPECT_THROW(bench.ops().Matmul(bad), Error);
}

}  // namespace
}  // namespace trireme
