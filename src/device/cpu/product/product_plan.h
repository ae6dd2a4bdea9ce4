// How a product is cut: in depth and in blocks for the caches and for threads. What decides the order of sums
// (depth blocks) follows from the depth and the kernel alone. In BLIS's words: depth_block is kc, row_panels x
// tile_rows is mc, column_panels x tile_columns is nc, tile_rows and tile_columns are mr and nr.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/shape.h"
#include "device/cpu/matmul.h"
#include "device/cpu/parallel.h"
#include "device/cpu/product/kernel.h"

namespace trireme {

StoreKind StoreKindOf(const MatmulArgs& args, bool accumulate);

// How many of `threads` threads a product has work for.
int ThreadsWorth(const ProductSizes& sizes, int threads);

struct DepthBlock {
  std::int64_t first;
  std::int64_t depth;
  std::int64_t padded;  // to the kernel's unit
};

struct ProductPlan {
  ProductPlan(const ProductKernel& kernel, const ProductSizes& sizes, int threads);

  DepthBlock Depth(std::int64_t block) const {
    const std::int64_t first = block * depth_block;
    const std::int64_t left = std::min(depth_block, depth - first);
    return {first, left, RoundUp(left, unit)};
  }
  // Depth blocks of which operands are packed at a time.
  Span Piece(std::int64_t piece) const { return CutSpan({0, depth_blocks}, piece, pieces); }
  // The padded depth of the largest piece.
  std::int64_t padded_depth() const {
    return std::min(RoundUp(depth, unit), CeilDiv(depth_blocks, pieces) * depth_block);
  }
  bool deep() const { return pieces > 1; }
  // Blocks of columns, and steps of rows, of this many panels.
  std::int64_t ColumnBlocks(std::int64_t panels) const { return CeilDiv(panels, column_panels); }
  std::int64_t RowSteps(std::int64_t panels) const { return CeilDiv(panels, row_step); }
  // Stride of a buffer of sums, in floats: a cache line more than a row of a block, lest rows share few sets of a
  // cache.
  std::int64_t sums_stride() const { return column_panels * tile_columns + 16; }
  // Floats of the sums of one row of tiles of a block.
  std::int64_t strip() const { return sums_stride() * tile_rows; }

  std::int64_t depth;
  std::int64_t unit;
  std::int64_t tile_rows;
  std::int64_t tile_columns;
  std::int64_t depth_blocks;  // how many
  std::int64_t depth_block;   // depths of one, a multiple of unit
  std::int64_t pieces;        // of depth: sums of c wait in memory for the next one
  // Panels of a block for the second-level cache: a thread takes a step of rows or several, up to row_panels.
  std::int64_t row_step;
  std::int64_t row_panels;
  std::int64_t column_panels;
  // Rows and columns of c whose operands are packed at a time; multiples of the tile's.
  std::int64_t rows_at_once;
  std::int64_t columns_at_once;
  int parts;  // threads that have work
  // A thread packs the rows that it takes itself, just before it multiplies them with all columns.
  bool packs_own_rows;
};

}  // namespace trireme
