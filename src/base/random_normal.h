// Normal random numbers with the same bits on every machine and on every GPU. Logarithm and cosine are polynomials of
// our own, and each operation is rounded once: a product that is added to something is written as std::fma, so that no
// compiler has a choice.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "base/random.h"

namespace trireme {

// ln x of a normal number x > 0; relative error below 1e-7.
TRIREME_HOST_DEVICE inline float PortableLog(float x) {
  // x = m 2^e with m from sqrt(1/2) to sqrt(2), whose bits are kLowest and more.
  constexpr std::uint32_t kLowest = 0x3f3504f3U;
  const std::uint32_t shifted = __builtin_bit_cast(std::uint32_t, x) + (0x3f800000U - kLowest);
  const auto exponent = static_cast<float>(static_cast<std::int32_t>(shifted >> 23U) - 127);
  const float f = __builtin_bit_cast(float, (shifted & 0x7fffffU) + kLowest) - 1.0F;
  float p = 0.06971611471F;
  p = std::fma(p, f, -0.1147973385F);
  p = std::fma(p, f, 0.1168541992F);
  p = std::fma(p, f, -0.1242568733F);
  p = std::fma(p, f, 0.1424905765F);
  p = std::fma(p, f, -0.1666780232F);
  p = std::fma(p, f, 0.2000071575F);
  p = std::fma(p, f, -0.2499999696F);
  p = std::fma(p, f, 0.3333333118F);
  p = std::fma(p, f, -0.5F);
  const float square = f * f;
  const float of_m = std::fma(p, square, f);
  return std::fma(exponent, 0.69314718056F, of_m);
}

// The cosine of `turns` / 2^24 of a full turn, turns < 2^24; absolute error below 1e-7.
TRIREME_HOST_DEVICE inline float CosineOfTurn(std::uint32_t turns) {
  // The nearest quarter of a turn, and what is left, at most an eighth either way.
  const std::uint32_t quarter = (turns + (1U << 21U)) >> 22U;
  const auto left = static_cast<std::int32_t>(turns - (quarter << 22U));
  const float x = static_cast<float>(left) * (1.0F / 16777216.0F);
  const float square = x * x;
  float cosine = 59.22016896F;
  cosine = std::fma(cosine, square, -85.44284467F);
  cosine = std::fma(cosine, square, 64.93931614F);
  cosine = std::fma(cosine, square, -19.73920865F);
  cosine = std::fma(cosine, square, 1.0F);
  float sine = 41.47283324F;
  sine = std::fma(sine, square, -76.69786635F);
  sine = std::fma(sine, square, 81.60520471F);
  sine = std::fma(sine, square, -41.34170215F);
  sine = std::fma(sine, square, 6.283185307F);
  sine = sine * x;
  const float size = (quarter & 1U) != 0 ? sine : cosine;
  return (quarter & 3U) == 1 || (quarter & 3U) == 2 ? -size : size;
}

// Standard normal by Box-Muller from one draw of 64 bits.
TRIREME_HOST_DEVICE inline float RandomNormal(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t bits = RandomBits(key, index);
  const float uniform = (static_cast<float>(static_cast<std::uint32_t>(bits >> 40U)) + 0.5F) * (1.0F / 16777216.0F);
  const float radius = std::sqrt(-2.0F * PortableLog(uniform));
  return radius * CosineOfTurn(static_cast<std::uint32_t>(bits >> 8U) & 0xffffffU);
}

}  // namespace trireme
