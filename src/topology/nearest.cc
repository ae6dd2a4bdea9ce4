#include "topology/nearest.h"

#include <fmt/core.h>

namespace trireme {

std::string NearestMultiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  return below <= 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
}

}  // namespace trireme
