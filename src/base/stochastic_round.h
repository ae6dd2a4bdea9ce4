// Floats to bfloat16 at random, upwards as often as they lie far from the lower neighbour: the mean of many roundings
// is the value. State that changes by less than half of a bfloat16's last bit a step (a second moment with beta2 =
// 0.999 moves by 0.1 %, the bit is worth 0.4 to 0.8 %) would never change under rounding to nearest; so it follows on
// average.
//
// The randomness is a hash of the very bits that are rounded and of a key, not of an element's place: whichever rank
// holds an element, in whichever layout, rounds equal values alike, so that copies stay copies, and a resumed run gives
// the bits of the uninterrupted one. CPU and CUDA share this code.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace trireme {

// 32 bits that look random, of two words of an element and a key that differs from step to step (a multiply each, then
// the finaliser "lowbias32"). The halves serve two roundings.
TRIREME_HOST_DEVICE constexpr std::uint32_t RoundingBits(std::uint32_t one, std::uint32_t other, std::uint32_t key) {
  std::uint32_t x = one + other * 0x85ebca6bU + key * 0x9e3779b9U;
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

// The bfloat16 below or above in magnitude, by the lower 16 bits of `random`. Bfloat16s stay as they are, and so do
// signs and infinities; no finite value becomes infinite; every NaN becomes the same one.
TRIREME_HOST_DEVICE constexpr std::uint16_t RoundAtRandom(std::uint32_t bits, std::uint32_t random) {
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t moved = bits + (random & 0xffffU);
  const bool stays = (moved & kInfinity) == kInfinity;  // not finite, or would not be
  const std::uint32_t rounded = magnitude > kInfinity ? 0x7fc00000U : stays ? bits : moved;
  return static_cast<std::uint16_t>(rounded >> 16);
}

}  // namespace trireme
