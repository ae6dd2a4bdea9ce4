#include "base/float8.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace trireme {
namespace {

struct Format {
  int mantissa_bits;
  int bias;
  float largest;
};

Format FormatOf(DType format) {
  assert(IsFloat8(format));
  return format == DType::kFloat8E4M3 ? Format{3, 7, 448.0F} : Format{2, 15, 57344.0F};
}

constexpr std::uint8_t kNotANumber = 0x7f;  // in both formats

}  // namespace

float LargestFloat8(DType format) { return FormatOf(format).largest; }

std::uint8_t EncodeFloat8(float value, DType format) {
  if (std::isnan(value)) {
    return kNotANumber;
  }
  const auto [bits, bias, largest] = FormatOf(format);
  const float magnitude = std::min(std::abs(value), largest);
  // Below the smallest normal number the spacing stays that of its binade.
  const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, bits - exponent)));
  const int code = ((exponent + bias) << bits) + steps - (1 << bits);
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

float DecodeFloat8(std::uint8_t code, DType format) {
  const auto [bits, bias, largest] = FormatOf(format);
  const int exponent = (code & 0x7f) >> bits;
  const int mantissa = code & ((1 << bits) - 1);
  const float sign = (code & 0x80) != 0 ? -1.0F : 1.0F;
  const bool is_e5m2 = format == DType::kFloat8E5M2;
  if (is_e5m2 ? exponent == 31 : (code & 0x7f) == kNotANumber) {
    return is_e5m2 && mantissa == 0 ? sign * std::numeric_limits<float>::infinity()
                                    : std::numeric_limits<float>::quiet_NaN();
  }
  const int steps = exponent == 0 ? mantissa : mantissa + (1 << bits);
  return sign * std::ldexp(static_cast<float>(steps), std::max(exponent, 1) - bias - bits);
}

float ScaleForFloat8(float magnitude, DType format) {
  constexpr int kMostExponent = 100;
  if (magnitude == 0) {
    return 1;
  }
  if (!std::isfinite(magnitude)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  // largest = 1.75 * 2^top in both formats.
  const int top = std::ilogb(LargestFloat8(format));
  int exponent = std::ilogb(magnitude);
  const bool above = std::ldexp(magnitude, -exponent) > 1.75F;
  exponent += (above ? 1 : 0) - top;
  return std::ldexp(1.0F, std::clamp(exponent, -kMostExponent, kMostExponent));
}

}  // namespace trireme
