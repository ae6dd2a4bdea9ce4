// IEEE half precision on the host: 5 bits of exponent, 10 of mantissa; up to 65504, with infinities and subnormals.
// Conversions are selections without branches or calls, so that loops over them become vector code.
#pragma once

#include <bit>
#include <cstdint>

namespace trireme {

struct Float16 {
  std::uint16_t bits = 0;

  static constexpr float kLargest = 65504.0F;

  Float16() = default;
  // Rounds to nearest even: from 65520 on to infinity, below 2^-24 by half to 0. NaN stays NaN.
  explicit Float16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000U;
    const std::uint32_t magnitude = word & 0x7fffffffU;
    // Subnormal halves are multiples of 2^-24, the last bit of a float in [0.5, 1): the sum rounds as they do.
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    const std::uint32_t even = (magnitude >> 13) & 1U;
    const std::uint32_t normal = (magnitude - kExponentShift + 0xfffU + even) >> 13;
    const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
    const std::uint32_t large = magnitude > 0x7f800000U ? 0x7e00U | ((magnitude >> 13) & 0x3ffU) : 0x7c00U;
    bits = static_cast<std::uint16_t>(sign | (magnitude < 0x47800000U ? finite : large));
  }
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7fffU;
    const std::uint32_t normal = (magnitude << 13) + kExponentShift;
    const std::uint32_t large = (magnitude << 13) | 0x7f800000U;
    const auto subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24F);
    const std::uint32_t finite = magnitude < 0x400U ? subnormal : normal;
    return std::bit_cast<float>(sign | (magnitude < 0x7c00U ? finite : large));
  }

 private:
  static constexpr std::uint32_t kExponentShift = 112U << 23;  // of the biases, 127 and 15
};

}  // namespace trireme
