// Text with a few bytes changed, cut out or copied: what a reader of files from outside must survive.
#pragma once

#include <cstdint>
#include <string>

#include "base/random.h"

namespace trireme {

inline std::string Damaged(std::string text, std::uint64_t draw) {
  for (std::uint64_t change = 0; change < 3; ++change) {
    const std::uint64_t key = CombineKeys(draw, change);
    const auto at = static_cast<std::size_t>(RandomBelow(key, 0, text.size()));
    switch (RandomBelow(key, 1, 3)) {
      case 0:
        text[at] = static_cast<char>(RandomBelow(key, 2, 256));
        break;
      case 1:
        text.erase(at, 1 + RandomBelow(key, 3, 20));
        break;
      default:
        text.insert(at, text.substr(static_cast<std::size_t>(RandomBelow(key, 4, text.size())), 9));
    }
  }
  return text;
}

}  // namespace trireme
