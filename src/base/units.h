// Sizes that texts and files give in units.
#pragma once

namespace trireme {

inline constexpr double kGibi = 1024.0 * 1024 * 1024;

}  // namespace trireme
