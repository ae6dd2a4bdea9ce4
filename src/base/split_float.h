// A float in two halves of 16 bits, of which the upper alone is a bfloat16 near it: training computes with the upper
// one, and only the optimizer reads both. Together they are the float, bit for bit.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace trireme {

struct FloatHalves {
  std::uint16_t high = 0;  // bfloat16, to nearest; ties go away from zero
  std::uint16_t low = 0;   // the float's lower bits; from 0x8000 on the upper half was rounded up
};

// Every NaN becomes the same one, whose upper half is a NaN too: the largest would round up to -0.
TRIREME_HOST_DEVICE constexpr FloatHalves SplitFloat(std::uint32_t bits) {
  bits = (bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc00000U : bits;
  return {static_cast<std::uint16_t>((bits + 0x8000U) >> 16), static_cast<std::uint16_t>(bits & 0xffffU)};
}

TRIREME_HOST_DEVICE constexpr std::uint32_t JoinFloat(FloatHalves halves) {
  const std::uint32_t low = halves.low;
  return ((static_cast<std::uint32_t>(halves.high) << 16) | low) - ((low & 0x8000U) << 1);
}

}  // namespace trireme
