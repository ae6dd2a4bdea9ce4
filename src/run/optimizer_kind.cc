#include "run/optimizer_kind.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace trireme {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 5> kOptimizerNames = {"adamw", "adafactor", "lion", "muon", "sgd"};

}  // namespace

std::string_view Name(OptimizerKind kind) { return kOptimizerNames[static_cast<std::size_t>(kind)]; }

OptimizerKind ParseOptimizerKind(std::string_view name) {
  const auto* const found = std::find(kOptimizerNames.begin(), kOptimizerNames.end(), name);
  Require(found != kOptimizerNames.end(), "optimizer '{}': training offers adamw, adafactor, lion, muon and sgd", name);
  return static_cast<OptimizerKind>(found - kOptimizerNames.begin());
}

std::vector<std::string> OptimizerNames() { return {kOptimizerNames.begin(), kOptimizerNames.end()}; }

}  // namespace trireme
