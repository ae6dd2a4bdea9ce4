// The optimizers that training offers. Names are compared here alone; all else asks the kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// kMuon: the matrices of blocks; the rest is updated as under kAdamW.
enum class OptimizerKind : std::uint8_t { kAdamW, kAdafactor, kLion, kMuon, kSgd };

// As recipes and options spell it.
std::string_view Name(OptimizerKind kind);
// Inverse of Name(); an Error names the known ones.
OptimizerKind ParseOptimizerKind(std::string_view name);
// All of them.
std::vector<std::string> OptimizerNames();

}  // namespace trireme
