// What is said of every parameter: its role, how the tensor axis cuts it, how it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.h"

namespace trireme {

enum class ParameterRole : std::uint8_t { kTokenTable, kPositionTable, kNormGain, kNormBias, kWeight, kBias };
std::string Name(ParameterRole role);
enum class Initializer : std::uint8_t { kZero, kOne, kNormal };

// How the tensor axis cuts a parameter. dim -1: every rank holds all of it. Otherwise `dim` is cut by segments (their
// sum is the extent): a rank holds its equal part of each segment, one after another (query | key | value; gate | up).
// `padded`: the single segment is the vocabulary; parts are rounded up (PaddedShare) and the last ones may be short.
struct Split {
  int dim = -1;
  std::vector<std::int64_t> segments;
  bool padded = false;
  bool replicated() const { return dim < 0; }
};

}  // namespace trireme
