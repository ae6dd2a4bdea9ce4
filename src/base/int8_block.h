// Blocks of 64 numbers as int8 with one fp32 scale: how gradients and weights travel between data ranks where bytes
// decide. A packed block is 17 words of 32 bits, the scale and then the numbers, four to a word, so that any range of
// whole blocks is contiguous. CPU and CUDA share this code and agree to the bit.
//
// A number x becomes q = round(x / scale), scale = (largest magnitude of the block) / 127, and comes back as q * scale:
// off by at most scale / 2. Numbers whose scale would leave the range of fp32 come back as 0; a block with a number
// that is not finite comes back as NaN.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"

namespace trireme {

inline constexpr std::int64_t kInt8Block = 64;
inline constexpr std::int64_t kInt8Words = 1 + kInt8Block / 4;

// Words of `count` packed numbers, a multiple of kInt8Block.
TRIREME_HOST_DEVICE constexpr std::int64_t PackedWords(std::int64_t count) { return count / kInt8Block * kInt8Words; }

// What quantises a block, from the bits of its largest magnitude: bits of magnitudes are in the order of magnitudes,
// and those of what is not finite come last.
struct Int8Scale {
  float scale = 0;    // of a block with a number that is not finite: NaN
  float inverse = 0;  // 0: every number becomes 0
};
TRIREME_HOST_DEVICE inline Int8Scale ScaleOfBlock(std::uint32_t largest_bits, float largest) {
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  constexpr std::uint32_t kLeast = 0x0d800000U;  // 2^-100
  if (largest_bits >= kInfinity) {
    return {.scale = NAN, .inverse = 0};
  }
  if (largest_bits < kLeast) {
    return {};
  }
  return {.scale = largest / 127.0F, .inverse = 127.0F / largest};
}

// With inverse > 0; ties to even.
TRIREME_HOST_DEVICE inline std::int32_t ToInt8(float value, float inverse) {
  const float rounded = std::rint(value * inverse);
  return static_cast<std::int32_t>(rounded < -127.0F ? -127.0F : rounded > 127.0F ? 127.0F : rounded);
}

}  // namespace trireme
