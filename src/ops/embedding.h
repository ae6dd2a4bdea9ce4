// Lookup in a cut vocabulary table, and learned positions.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace trireme {

// Rows [first_row, first_row + rows) of a vocabulary table. tokens int32 [n].
struct EmbeddingArgs {
  Tensor tokens;
  Tensor table;  // [rows, C]
  std::int64_t first_row = 0;
  Tensor out;  // [n, C]; zero where the token's row is not in the table
  // Backward only:
  Tensor grad_out;    // [n, C]
  Tensor grad_table;  // fp32 [rows, C], added to
};

// x[i] += table[(first_token + i) % T], or table[tokens[i] % T]; table [T, C]. Backward adds grad rows to grad_table
// (fp32) likewise.
struct PositionArgs {
  Tensor x;  // [n, C]; in backward the gradient, read only
  Tensor table;
  Tensor grad_table;
  std::int64_t first_token = 0;
  Tensor tokens = {};  // int32 [n]; may be missing
};

}  // namespace trireme
