// From fp32 to the working type, written as a selection rather than a branch so that loops over it become vector code.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/float16.h"

namespace trireme {

// Equal to T(value), bit for bit.
template <typename T>
inline T Narrow(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return Float16(value);
  } else {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = word + 0x7fffU + ((word >> 16) & 1U);
    const std::uint32_t quiet = word | 0x400000U;
    const std::uint32_t chosen = (word & 0x7fffffffU) > 0x7f800000U ? quiet : rounded;
    return std::bit_cast<BFloat16>(static_cast<std::uint16_t>(chosen >> 16));
  }
}

}  // namespace trireme
