// Values that would work, for messages about ones that do not. NearestDivisors (layout.h) is their sibling.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The multiples of `unit` around `value`, as "8 or 12"; only "4" when none lies below. unit > 0.
std::string NearestMultiples(std::int64_t value, std::int64_t unit);

}  // namespace trireme
