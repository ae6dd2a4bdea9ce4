// What is drawn by global position, so that every layout draws the same: dropout masks and initial weights.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace trireme {

// Element i of a tensor stands at global position first_element + i; it is dropped when
// RandomUniform(key, global position) < probability, and multiplied by 1 / (1 - probability) otherwise. With `tokens`
// the rows of the tensor, a matrix, are not consecutive: element c of row r stands at
// first_element + tokens[r] * columns + c.
struct Dropout {
  float probability = 0;
  std::uint64_t key = 0;
  std::int64_t first_element = 0;
  Tensor tokens = {};  // int32 [rows]; may be missing
};

// Rows of a matrix [rows, columns] that stand in a larger one: element (r, c) has the global position
// first_element + r * stride + c, and is deviation * RandomNormal(key, global position).
struct NormalDraw {
  std::uint64_t key = 0;
  std::int64_t first_element = 0;
  std::int64_t stride = 0;
  float deviation = 1;
};

}  // namespace trireme
