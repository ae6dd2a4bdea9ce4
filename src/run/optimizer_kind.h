// The optimizers that training offers: one row each, which says what all others ask. Names stand here alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/words.h"

namespace trireme {

// kMuon: the matrices of blocks; the rest is updated as under kAdamW.
enum class OptimizerKind : std::uint8_t { kAdamW, kAdafactor, kLion, kMuon, kSgd };

struct OptimizerTraits {
  std::string_view name;  // as recipes and options spell it
  // What each element of a parameter that it updates has of state; a factored matrix has neither.
  bool first_moment = true;
  bool second_moment = true;
  bool factors_matrices = false;  // the second moment of a matrix is one number per row and per column
  bool owns_matrices = false;     // a matrix of a block is updated whole, by one rank
  // Bytes written and read per element for the direction of an update that takes more than one pass.
  int direction_bytes = 0;

  // Moments of each element of a matrix.
  constexpr int moments() const { return (first_moment ? 1 : 0) + (second_moment && !factors_matrices ? 1 : 0); }
};

// In the order of the enumeration.
inline constexpr std::array<OptimizerTraits, 5> kOptimizers = {{
    {.name = "adamw"},
    {.name = "adafactor", .first_moment = false, .factors_matrices = true, .direction_bytes = 16},
    {.name = "lion", .second_moment = false},
    {.name = "muon", .second_moment = false, .owns_matrices = true, .direction_bytes = 8},
    {.name = "sgd", .second_moment = false},
}};

constexpr const OptimizerTraits& TraitsOf(OptimizerKind kind) { return kOptimizers[static_cast<std::size_t>(kind)]; }

template <>
inline constexpr auto kWords<OptimizerKind> = [] {
  std::array<std::string_view, kOptimizers.size()> words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = kOptimizers[i].name;
  }
  return words;
}();

}  // namespace trireme
