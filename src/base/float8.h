// The two 8-bit floating-point formats on the host.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace trireme {

// The largest finite number of a format: 448 or 57344. Requires IsFloat8(format), as all of these do.
float LargestFloat8(DType format);
// Rounded to nearest even; beyond the largest number it becomes that number, NaN stays NaN.
std::uint8_t EncodeFloat8(float value, DType format);
float DecodeFloat8(std::uint8_t bits, DType format);

// The smallest power of two with which `magnitude` / scale is within the range of the format: 1 for 0, NaN for what is
// not finite. It stays between 2^-100 and 2^100.
float ScaleForFloat8(float magnitude, DType format);

// Numbers of a tensor in which an operation notes the largest magnitude that it writes: many threads do it at once, and
// the largest of the numbers counts.
inline constexpr std::int64_t kLargestSlots = 256;

}  // namespace trireme
