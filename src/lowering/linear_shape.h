// The extents of a block's linear layers on one rank.
#pragma once

#include <cstdint>

#include "lowering/local_sizes.h"
#include "model/float8_products.h"

namespace trireme {

// `rows` tokens, weight [outputs, inputs].
struct LinearShape {
  std::int64_t rows = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  bool bias = false;
};
LinearShape ShapeOf(BlockLinear linear, const LocalSizes& sizes, bool bias = false);

}  // namespace trireme
