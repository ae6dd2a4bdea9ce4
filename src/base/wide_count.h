// Counts that 64 bits may not hold.
#pragma once

#include <cstdint>

namespace trireme {

// A count that 64 bits may not hold: a product of two that they do. Unsigned, since sanitizers check a signed product
// of 128 bits by a function that GCC's run-time library does not have.
using WideCount = unsigned __int128;

// Requires a, b >= 0.
constexpr WideCount WideProduct(std::int64_t a, std::int64_t b) {
  return static_cast<WideCount>(a) * static_cast<WideCount>(b);
}

}  // namespace trireme
