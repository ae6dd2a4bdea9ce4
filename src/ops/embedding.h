// Lookup in a cut vocabulary table, and learned positions.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ops/operation.h"
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

// x[i] += table[(first_token + i) % T], or table[positions[i] % T]; table [T, C].
template <typename T>
struct AddPositions {
  static constexpr std::string_view kName = "positions";
  T x;  // [n, C]
  T table;
  T positions = {};  // int32 [n]; may be missing
  std::int64_t first_token = 0;

  static constexpr auto Operands() {
    using Of = Use<AddPositions, T>;
    return std::array{Of{&AddPositions::x, "x", Access::kUpdate},
                      Of{&AddPositions::table, "table", Access::kRead, Owner::kParameter, 0},
                      Of{&AddPositions::positions, "positions", Access::kRead, Owner::kBatch, 0}};
  }
};
void Check(const AddPositions<Tensor>& op);

// Adds the rows of grad to those of grad_table (fp32) likewise.
template <typename T>
struct PositionsBackward {
  static constexpr std::string_view kName = "positions_backward";
  T grad;  // [n, C]
  T grad_table;
  T positions = {};  // int32 [n]; may be missing
  std::int64_t first_token = 0;

  static constexpr auto Operands() {
    using Of = Use<PositionsBackward, T>;
    return std::array{Of{&PositionsBackward::grad, "grad"},
                      Of{&PositionsBackward::grad_table, "table", Access::kUpdate, Owner::kGradient, 1},
                      Of{&PositionsBackward::positions, "positions", Access::kRead, Owner::kBatch, 0}};
  }
};
void Check(const PositionsBackward<Tensor>& op);

}  // namespace trireme
