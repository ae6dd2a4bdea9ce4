// Sizes that texts and files give in units.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

inline constexpr double kGibi = 1024.0 * 1024 * 1024;

// "12.3 MB"
std::string HumanBytes(std::int64_t bytes);

}  // namespace trireme
