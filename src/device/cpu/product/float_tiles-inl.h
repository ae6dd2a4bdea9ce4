// The inner loops of fp32 products, for Highway's target at hand. Sums are named variables, since vectors of SVE cannot
// stand in arrays. A panel of op(a) is [depth][rows], one of op(b) [depth][columns]. Included by float_kernel.cc alone,
// once per target.
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "device/cpu/product/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Adds a row of sums to memory, or replaces it.
HWY_INLINE void FinishRow(bool accumulate, float* sums, FloatVec s0, FloatVec s1) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  if (accumulate) {
    s0 = hn::Add(s0, hn::LoadU(d, sums));
    s1 = hn::Add(s1, hn::LoadU(d, sums + lanes));
  }
  hn::StoreU(s0, d, sums);
  hn::StoreU(s1, d, sums + lanes);
}

HWY_INLINE void FinishRow(bool accumulate, float* sums, FloatVec s0, FloatVec s1, FloatVec s2) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  FinishRow(accumulate, sums, s0, s1);
  hn::StoreU(accumulate ? hn::Add(s2, hn::LoadU(d, sums + 2 * lanes)) : s2, d, sums + 2 * lanes);
}

// 6 rows of 2 vectors: for targets with 16 registers.
struct Tile6x2 {
  static constexpr int kRows = 6;
  static std::int64_t Columns() { return 2 * static_cast<std::int64_t>(hn::Lanes(FloatTag())); }

  static void Multiply(const TileArgs& args) {
    const FloatTag d;
    const std::size_t lanes = hn::Lanes(d);
    const auto* a = static_cast<const float*>(args.a);
    const auto* b = static_cast<const float*>(args.b);
    FloatVec s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00;
    FloatVec s30 = s00, s31 = s00, s40 = s00, s41 = s00, s50 = s00, s51 = s00;
    for (std::int64_t k = 0; k < args.depth; ++k, a += kRows, b += 2 * lanes) {
      const FloatVec b0 = hn::LoadU(d, b);
      const FloatVec b1 = hn::LoadU(d, b + lanes);
      FloatVec factor = hn::Set(d, a[0]);
      s00 = hn::MulAdd(factor, b0, s00);
      s01 = hn::MulAdd(factor, b1, s01);
      factor = hn::Set(d, a[1]);
      s10 = hn::MulAdd(factor, b0, s10);
      s11 = hn::MulAdd(factor, b1, s11);
      factor = hn::Set(d, a[2]);
      s20 = hn::MulAdd(factor, b0, s20);
      s21 = hn::MulAdd(factor, b1, s21);
      factor = hn::Set(d, a[3]);
      s30 = hn::MulAdd(factor, b0, s30);
      s31 = hn::MulAdd(factor, b1, s31);
      factor = hn::Set(d, a[4]);
      s40 = hn::MulAdd(factor, b0, s40);
      s41 = hn::MulAdd(factor, b1, s41);
      factor = hn::Set(d, a[5]);
      s50 = hn::MulAdd(factor, b0, s50);
      s51 = hn::MulAdd(factor, b1, s51);
    }
    const auto stride = static_cast<std::size_t>(args.sums_stride);
    FinishRow(args.accumulate, args.sums, s00, s01);
    FinishRow(args.accumulate, args.sums + stride, s10, s11);
    FinishRow(args.accumulate, args.sums + 2 * stride, s20, s21);
    FinishRow(args.accumulate, args.sums + 3 * stride, s30, s31);
    FinishRow(args.accumulate, args.sums + 4 * stride, s40, s41);
    FinishRow(args.accumulate, args.sums + 5 * stride, s50, s51);
  }
};

// Element i of a panel's line in every lane: from memory, or, where that takes a vector instruction of its own (NEON),
// from a register, which multiply-adds take as it is.
struct FactorsInMemory {
  explicit HWY_INLINE FactorsInMemory(const float* line) : a(line) {}
  template <int kIndex>
  HWY_INLINE FloatVec Get() const {
    return hn::Set(FloatTag(), a[kIndex]);
  }
  const float* a;
};

// 8 rows of 3 vectors: for targets with 32 registers.
template <class Factors>
struct Tile8x3 {
  static constexpr int kRows = 8;
  static std::int64_t Columns() { return 3 * static_cast<std::int64_t>(hn::Lanes(FloatTag())); }

  static void Multiply(const TileArgs& args) {
    const FloatTag d;
    const std::size_t lanes = hn::Lanes(d);
    const auto* a = static_cast<const float*>(args.a);
    const auto* b = static_cast<const float*>(args.b);
    FloatVec s00 = hn::Zero(d), s01 = s00, s02 = s00, s10 = s00, s11 = s00, s12 = s00;
    FloatVec s20 = s00, s21 = s00, s22 = s00, s30 = s00, s31 = s00, s32 = s00;
    FloatVec s40 = s00, s41 = s00, s42 = s00, s50 = s00, s51 = s00, s52 = s00;
    FloatVec s60 = s00, s61 = s00, s62 = s00, s70 = s00, s71 = s00, s72 = s00;
    for (std::int64_t k = 0; k < args.depth; ++k, a += kRows, b += 3 * lanes) {
      const FloatVec b0 = hn::LoadU(d, b);
      const FloatVec b1 = hn::LoadU(d, b + lanes);
      const FloatVec b2 = hn::LoadU(d, b + 2 * lanes);
      const Factors factors(a);
      s00 = hn::MulAdd(factors.template Get<0>(), b0, s00);
      s01 = hn::MulAdd(factors.template Get<0>(), b1, s01);
      s02 = hn::MulAdd(factors.template Get<0>(), b2, s02);
      s10 = hn::MulAdd(factors.template Get<1>(), b0, s10);
      s11 = hn::MulAdd(factors.template Get<1>(), b1, s11);
      s12 = hn::MulAdd(factors.template Get<1>(), b2, s12);
      s20 = hn::MulAdd(factors.template Get<2>(), b0, s20);
      s21 = hn::MulAdd(factors.template Get<2>(), b1, s21);
      s22 = hn::MulAdd(factors.template Get<2>(), b2, s22);
      s30 = hn::MulAdd(factors.template Get<3>(), b0, s30);
      s31 = hn::MulAdd(factors.template Get<3>(), b1, s31);
      s32 = hn::MulAdd(factors.template Get<3>(), b2, s32);
      s40 = hn::MulAdd(factors.template Get<4>(), b0, s40);
      s41 = hn::MulAdd(factors.template Get<4>(), b1, s41);
      s42 = hn::MulAdd(factors.template Get<4>(), b2, s42);
      s50 = hn::MulAdd(factors.template Get<5>(), b0, s50);
      s51 = hn::MulAdd(factors.template Get<5>(), b1, s51);
      s52 = hn::MulAdd(factors.template Get<5>(), b2, s52);
      s60 = hn::MulAdd(factors.template Get<6>(), b0, s60);
      s61 = hn::MulAdd(factors.template Get<6>(), b1, s61);
      s62 = hn::MulAdd(factors.template Get<6>(), b2, s62);
      s70 = hn::MulAdd(factors.template Get<7>(), b0, s70);
      s71 = hn::MulAdd(factors.template Get<7>(), b1, s71);
      s72 = hn::MulAdd(factors.template Get<7>(), b2, s72);
    }
    const auto stride = static_cast<std::size_t>(args.sums_stride);
    FinishRow(args.accumulate, args.sums, s00, s01, s02);
    FinishRow(args.accumulate, args.sums + stride, s10, s11, s12);
    FinishRow(args.accumulate, args.sums + 2 * stride, s20, s21, s22);
    FinishRow(args.accumulate, args.sums + 3 * stride, s30, s31, s32);
    FinishRow(args.accumulate, args.sums + 4 * stride, s40, s41, s42);
    FinishRow(args.accumulate, args.sums + 5 * stride, s50, s51, s52);
    FinishRow(args.accumulate, args.sums + 6 * stride, s60, s61, s62);
    FinishRow(args.accumulate, args.sums + 7 * stride, s70, s71, s72);
  }
};

// As FactorsInMemory, from two registers of 4 lanes; for vectors of 4 lanes alone.
template <class D>
struct FactorsInRegisters {
  explicit HWY_INLINE FactorsInRegisters(const float* line)
      : low(hn::LoadU(D(), line)), high(hn::LoadU(D(), line + 4)) {}
  template <int kIndex>
  HWY_INLINE hn::Vec<D> Get() const {
    if constexpr (kIndex < 4) {
      return hn::Broadcast<kIndex>(low);
    } else {
      return hn::Broadcast<kIndex - 4>(high);
    }
  }
  hn::Vec<D> low;
  hn::Vec<D> high;
};

// 4 rows of 2 vectors as every architecture's baseline has them: for Highway's target without vectors.
struct BaselineTile {
  using Vector = float __attribute__((vector_size(16)));
  static constexpr int kRows = 4;
  static std::int64_t Columns() { return 8; }

  static void Multiply(const TileArgs& args) {
    const auto* a = static_cast<const float*>(args.a);
    const auto* b = static_cast<const float*>(args.b);
    Vector left[kRows] = {};
    Vector right[kRows] = {};
    for (std::int64_t k = 0; k < args.depth; ++k, a += kRows, b += 8) {
      Vector b_left;
      Vector b_right;
      std::memcpy(&b_left, b, sizeof(Vector));
      std::memcpy(&b_right, b + 4, sizeof(Vector));
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) {
        left[i] += a[i] * b_left;
        right[i] += a[i] * b_right;
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < 4; ++j) {
        float* to = args.sums + args.sums_stride * i + j;
        to[0] = (args.accumulate ? to[0] : 0.0F) + left[i][j];
        to[4] = (args.accumulate ? to[4] : 0.0F) + right[i][j];
      }
    }
  }
};

// The tile of a target, by its registers.
template <std::int64_t kTarget>
struct TileChoice {
  using Tile = Tile6x2;
};
template <>
struct TileChoice<HWY_SCALAR> {
  using Tile = BaselineTile;
};
template <>
struct TileChoice<HWY_EMU128> {
  using Tile = BaselineTile;
};
template <>
struct TileChoice<HWY_AVX3> {
  using Tile = Tile8x3<FactorsInMemory>;
};
template <>
struct TileChoice<HWY_SVE> {
  using Tile = Tile8x3<FactorsInMemory>;
};
template <>
struct TileChoice<HWY_NEON> {
  using Tile = Tile8x3<FactorsInRegisters<FloatTag>>;
};
using Tile = TileChoice<HWY_TARGET>::Tile;

}  // namespace
}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
