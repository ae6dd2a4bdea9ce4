// The end of a product for Highway's target at hand: bias, gelu or its gradient, sum with c, rounding, for sums that
// lie in cache. Included by float_kernel.cc alone, once per target.
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/float16.h"
#include "device/cpu/product/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

HWY_INLINE FloatVec LoadWide(const float* from) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE FloatVec LoadWide(const BFloat16* from) {
  const hn::Rebind<std::uint16_t, FloatTag> narrow;
  const hn::RebindToUnsigned<FloatTag> wide;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}
// The selections of base/float16.h.
HWY_INLINE FloatVec LoadWide(const Float16* from) {
  const hn::Rebind<std::uint16_t, FloatTag> narrow;
  const hn::RebindToUnsigned<FloatTag> wide;
  const hn::RebindToSigned<FloatTag> integer;
  const auto bits = hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from)));
  const auto magnitude = hn::And(bits, hn::Set(wide, 0x7fff));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  const FloatVec units = hn::ConvertTo(FloatTag(), hn::BitCast(integer, magnitude));
  const auto subnormal = hn::BitCast(wide, hn::Mul(units, hn::Set(FloatTag(), 0x1p-24F)));
  const auto normal = hn::Add(shifted, hn::Set(wide, 112U << 23));
  const auto large = hn::Or(shifted, hn::Set(wide, 0x7f800000U));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(wide, 0x400)), subnormal, normal);
  const auto chosen = hn::IfThenElse(hn::Lt(magnitude, hn::Set(wide, 0x7c00)), finite, large);
  return hn::BitCast(FloatTag(), hn::Or(sign, chosen));
}

HWY_INLINE void StoreNarrow(FloatVec value, float* to) { hn::StoreU(value, FloatTag(), to); }
// Rounds to nearest even; a NaN stays one.
HWY_INLINE void StoreNarrow(FloatVec value, BFloat16* to) {
  const hn::Rebind<std::uint16_t, FloatTag> narrow;
  const hn::RebindToUnsigned<FloatTag> wide;
  const auto word = hn::BitCast(wide, value);
  const auto even = hn::And(hn::ShiftRight<16>(word), hn::Set(wide, 1));
  const auto rounded = hn::Add(word, hn::Add(even, hn::Set(wide, 0x7fff)));
  const auto quiet = hn::Or(word, hn::Set(wide, 0x400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(wide, hn::IsNaN(value)), quiet, rounded);
  hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(chosen)), narrow, reinterpret_cast<std::uint16_t*>(to));
}

HWY_INLINE void StoreNarrow(FloatVec value, Float16* to) {
  const hn::Rebind<std::uint16_t, FloatTag> narrow;
  const hn::RebindToUnsigned<FloatTag> wide;
  const auto word = hn::BitCast(wide, value);
  const auto magnitude = hn::And(word, hn::Set(wide, 0x7fffffffU));
  const auto sign = hn::ShiftRight<16>(hn::Xor(word, magnitude));
  const FloatVec half = hn::Set(FloatTag(), 0.5F);
  const auto moved = hn::BitCast(wide, hn::Add(hn::BitCast(FloatTag(), magnitude), half));
  const auto subnormal = hn::Sub(moved, hn::BitCast(wide, half));
  const auto even = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(wide, 1));
  const auto normal =
      hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, hn::Set(wide, 112U << 23)), hn::Add(even, hn::Set(wide, 0xfff))));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(wide, 0x38800000U)), subnormal, normal);
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(wide, 0x3ff));
  const auto large = hn::IfThenElse(hn::Gt(magnitude, hn::Set(wide, 0x7f800000U)),
                                    hn::Or(payload, hn::Set(wide, 0x7e00)), hn::Set(wide, 0x7c00));
  const auto chosen = hn::IfThenElse(hn::Lt(magnitude, hn::Set(wide, 0x47800000U)), finite, large);
  hn::StoreU(hn::TruncateTo(narrow, hn::Or(sign, chosen)), narrow, reinterpret_cast<std::uint16_t*>(to));
}

// The first `count` elements, fewer than a vector's.
template <typename T>
HWY_INLINE FloatVec LoadPart(const T* from, std::size_t count) {
  T padded[hn::MaxLanes(FloatTag())] = {};
  std::memcpy(padded, from, count * sizeof(T));
  return LoadWide(padded);
}

template <typename T>
HWY_INLINE void StorePart(FloatVec value, T* to, std::size_t count) {
  T padded[hn::MaxLanes(FloatTag())];
  StoreNarrow(value, padded);
  std::memcpy(to, padded, count * sizeof(T));
}

// 1 / x for 1 <= x < 2^120.
HWY_INLINE FloatVec Reciprocal(FloatVec x) {
  const FloatTag d;
  if constexpr (HWY_TARGET == HWY_AVX3) {
    // 14 bits and one step of Newton's: a division takes four times as long.
    const FloatVec guess = hn::ApproximateReciprocal(x);
    return hn::MulAdd(guess, hn::NegMulAdd(x, guess, hn::Set(d, 1.0F)), guess);
  } else {
    return hn::Div(hn::Set(d, 1.0F), x);
  }
}

// 1 + 2^x for x within [-115, 115]; beyond as at the bounds. Relative error of the power below 2e-7.
HWY_INLINE FloatVec OnePlusExp2(FloatVec x) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> bits;
  const FloatVec y = hn::Min(hn::Max(x, hn::Set(d, -115.0F)), hn::Set(d, 115.0F));
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const FloatVec round = hn::Set(d, 12582912.0F);
  const FloatVec shifted = hn::Add(y, round);
  const FloatVec r = hn::Sub(y, hn::Sub(shifted, round));
  // A polynomial of least relative error within [-1/2, 1/2]; three pairs of terms at once.
  const FloatVec square = hn::Mul(r, r);
  const FloatVec low = hn::MulAdd(r, hn::Set(d, 6.93147004e-1F), hn::Set(d, 1.0F));
  const FloatVec middle = hn::MulAdd(r, hn::Set(d, 5.55073358e-2F), hn::Set(d, 2.40222424e-1F));
  const FloatVec high = hn::MulAdd(r, hn::Set(d, 1.32646703e-3F), hn::Set(d, 9.67149995e-3F));
  const FloatVec p = hn::MulAdd(hn::MulAdd(high, square, middle), square, low);
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(bits, shifted), hn::Set(bits, 127)));
  return hn::MulAdd(p, hn::BitCast(d, power), hn::Set(d, 1.0F));
}

// The tanh form, as device/cpu/vector_math.h has it: x sigmoid(x * (linear + cubic * x^2)).
constexpr float kLinear = 1.5957691216057308F;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715F * kLinear;
constexpr float kLog2E = 1.4426950408889634F;

HWY_INLINE FloatVec GeluSigmoid(FloatVec x, FloatVec square) {
  const FloatTag d;
  const FloatVec exponent = hn::MulAdd(square, hn::Set(d, -kCubic * kLog2E), hn::Set(d, -kLinear * kLog2E));
  return Reciprocal(OnePlusExp2(hn::Mul(x, exponent)));
}

HWY_INLINE FloatVec GeluOf(FloatVec x) { return hn::Mul(x, GeluSigmoid(x, hn::Mul(x, x))); }

HWY_INLINE FloatVec GeluGradientOf(FloatVec x) {
  const FloatTag d;
  const FloatVec square = hn::Mul(x, x);
  const FloatVec s = GeluSigmoid(x, square);
  const FloatVec slope = hn::MulAdd(square, hn::Set(d, 3.0F * kCubic), hn::Set(d, kLinear));
  return hn::MulAdd(hn::Mul(x, slope), hn::NegMulAdd(s, s, s), s);
}

// One vector of a row: all lanes with kWhole, otherwise the first `count`.
template <StoreKind kKind, bool kWhole, typename In, typename Out>
HWY_INLINE void StoreVector(const float* sums, const In* bias, Out* c, Out* auxiliary, std::size_t count) {
  const auto load = [&](const auto* from) HWY_ATTR {
    if constexpr (kWhole) {
      return LoadWide(from);
    } else {
      return LoadPart(from, count);
    }
  };
  const auto store = [&](FloatVec value, Out* to) HWY_ATTR {
    if constexpr (kWhole) {
      StoreNarrow(value, to);
    } else {
      StorePart(value, to, count);
    }
  };
  FloatVec z = load(sums);
  if (bias != nullptr) {
    z = hn::Add(z, load(bias));
  }
  if constexpr (kKind == StoreKind::kAccumulate) {
    z = hn::Add(z, load(c));
  } else if constexpr (kKind == StoreKind::kGelu) {
    store(z, auxiliary);
    z = GeluOf(z);
  } else if constexpr (kKind == StoreKind::kGeluGradient) {
    z = hn::Mul(z, GeluGradientOf(load(auxiliary)));
  } else if constexpr (kKind == StoreKind::kResidual) {
    z = hn::Add(z, load(auxiliary));
  }
  store(z, c);
}

// One row. The loop over whole vectors has no call: constants stay in registers.
template <StoreKind kKind, typename In, typename Out>
HWY_INLINE void StoreRow(const StoreArgs& args, const float* sums, Out* c, Out* auxiliary) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  const auto* bias = static_cast<const In*>(args.bias);
  const auto columns = static_cast<std::size_t>(args.columns);
  const auto at = [](auto* from, std::size_t i) { return from == nullptr ? nullptr : from + i; };
  std::size_t i = 0;
  for (; i + lanes <= columns; i += lanes) {
    StoreVector<kKind, true>(sums + i, at(bias, i), c + i, at(auxiliary, i), lanes);
  }
  if (i < columns) {
    StoreVector<kKind, false>(sums + i, at(bias, i), c + i, at(auxiliary, i), columns - i);
  }
}

template <StoreKind kKind, typename In, typename Out>
void StoreRows(const StoreArgs& args) {
  auto* c = static_cast<Out*>(args.c);
  auto* auxiliary = static_cast<Out*>(args.auxiliary);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    Out* const beside = auxiliary == nullptr ? nullptr : auxiliary + row * args.out_stride;
    StoreRow<kKind, In>(args, args.sums + row * args.sums_stride, c + row * args.out_stride, beside);
  }
}

template <typename In, typename Out>
void StoreOf(const StoreArgs& args) {
  switch (args.kind) {
    case StoreKind::kPlain:
      return StoreRows<StoreKind::kPlain, In, Out>(args);
    case StoreKind::kAccumulate:
      return StoreRows<StoreKind::kAccumulate, In, Out>(args);
    case StoreKind::kGelu:
      return StoreRows<StoreKind::kGelu, In, Out>(args);
    case StoreKind::kGeluGradient:
      return StoreRows<StoreKind::kGeluGradient, In, Out>(args);
    case StoreKind::kResidual:
      return StoreRows<StoreKind::kResidual, In, Out>(args);
  }
}

void Store(const StoreArgs& args) {
  const bool wide = args.out_type == OperandType::kFloat32;
  switch (args.bias_type) {
    case OperandType::kFloat32:
      return StoreOf<float, float>(args);
    case OperandType::kBFloat16:
      return wide ? StoreOf<BFloat16, float>(args) : StoreOf<BFloat16, BFloat16>(args);
    case OperandType::kFloat16:
      return wide ? StoreOf<Float16, float>(args) : StoreOf<Float16, Float16>(args);
  }
}

}  // namespace
}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
