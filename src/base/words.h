// Enumerations whose values have words, as recipes, options and files spell them. An enumeration takes part by
// specialising kWords beside its definition, with one word for each value in order:
//
//   enum class Packing : std::uint8_t { kWindows, kBestFit };
//   template <>
//   inline constexpr std::array<std::string_view, 2> kWords<Packing> = {"windows", "best_fit"};
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace trireme {

template <typename Enum>
inline constexpr std::array<std::string_view, 0> kWords = {};

template <typename Enum>
concept HasWords = kWords<Enum>
.size() > 0;

template <HasWords Enum>
std::string Name(Enum value) {
  return std::string(kWords<Enum>[static_cast<std::size_t>(value)]);
}

// The words of all values, in order.
template <HasWords Enum>
std::vector<std::string> NamesOf() {
  return {kWords<Enum>.begin(), kWords<Enum>.end()};
}

// Inverse of Name(). An Error says that `what` is unknown, with the nearest word and all words.
template <HasWords Enum>
Enum FromWord(const char* what, std::string_view word) {
  for (std::size_t i = 0; i < kWords<Enum>.size(); ++i) {
    if (kWords<Enum>[i] == word) {
      return static_cast<Enum>(i);
    }
  }
  FailUnknown(what, std::string(word), NamesOf<Enum>());
}

}  // namespace trireme
