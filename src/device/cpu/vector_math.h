// Functions of one float written without branches or calls, so that the compiler turns loops over them into vector
// code. Always inlined: a call within a loop would be made number by number, and for the least CPU level at that.
// Relative error below 1e-6; NaN gives NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace trireme {

// e^x; 0 below -87.3 and infinity above 88.3.
[[gnu::always_inline]] inline float VectorExp(float x) {
  constexpr float kLowest = -87.3F;
  constexpr float kHighest = 88.3F;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  constexpr float kRound = 12582912.0F;
  float y = x < kLowest ? kLowest : x;
  y = y > kHighest ? kHighest : y;
  const float shifted = y * 1.44269504F + kRound;
  const float n = shifted - kRound;
  // ln 2 in two parts, the first exact in few bits; the polynomial is Cephes' expf.
  const float r = (y - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127U) << 23);
  const float value = p * power;
  const float bounded = x > kHighest ? std::numeric_limits<float>::infinity() : value;
  return x < kLowest ? 0.0F : bounded;
}

[[gnu::always_inline]] inline float VectorTanh(float x) { return 1.0F - 2.0F / (1.0F + VectorExp(2.0F * x)); }

[[gnu::always_inline]] inline float Sigmoid(float x) { return 1.0F / (1.0F + VectorExp(-x)); }

// The tanh form: x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
inline constexpr float kGeluLinear = 1.5957691216057308F;  // 2 sqrt(2/pi)
inline constexpr float kGeluCubic = 0.044715F * kGeluLinear;

[[gnu::always_inline]] inline float Gelu(float x) { return x * Sigmoid(x * (kGeluLinear + kGeluCubic * x * x)); }

// Phi, the distribution of a normal number: (1 + erf(x / sqrt(2))) / 2, erf by Abramowitz and Stegun 7.1.26, whose
// error is below 1.5e-7.
[[gnu::always_inline]] inline float NormalDistribution(float x) {
  const float z = (x < 0 ? -x : x) * 0.70710678F;
  const float t = 1.0F / (1.0F + 0.3275911F * z);
  const float p = ((((1.061405429F * t - 1.453152027F) * t + 1.421413741F) * t - 0.284496736F) * t + 0.254829592F) * t;
  const float tail = 0.5F * p * VectorExp(-z * z);
  return x < 0 ? tail : 1.0F - tail;
}

[[gnu::always_inline]] inline float ExactGelu(float x) { return x * NormalDistribution(x); }

[[gnu::always_inline]] inline float ExactGeluGradient(float x) {
  return NormalDistribution(x) + x * 0.39894228F * VectorExp(-0.5F * x * x);
}

[[gnu::always_inline]] inline float GeluGradient(float x) {
  const float square = x * x;
  const float s = Sigmoid(x * (kGeluLinear + kGeluCubic * square));
  return s + x * s * (1.0F - s) * (kGeluLinear + 3.0F * kGeluCubic * square);
}

}  // namespace trireme
