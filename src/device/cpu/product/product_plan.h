// How a product is cut: in depth and in blocks for the caches, in parts for threads. What decides the order of sums
// (depth blocks) follows from the depth and the kernel alone. In BLIS's words: depth_block is kc, row_panels x
// tile_rows is mc, column_panels x tile_columns is nc, tile_rows and tile_columns are mr and nr.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/shape.h"
#include "device/cpu/matmul.h"
#include "device/cpu/product/kernel.h"

namespace trireme {

StoreKind StoreKindOf(const MatmulArgs& args, bool accumulate);

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Part `part` of `parts` nearly equal ones.
inline Span CutSpan(const Span& span, std::int64_t part, std::int64_t parts) {
  const std::int64_t length = span.end - span.begin;
  return {span.begin + length * part / parts, span.begin + length * (part + 1) / parts};
}

// Blocks of at most `largest` panels, a multiple of `threads`: threads of equal speed take equal numbers.
inline std::int64_t BlocksOf(std::int64_t panels, std::int64_t largest, int threads) {
  return RoundUp(CeilDiv(panels, largest), threads);
}

struct ThreadGrid {
  int rows = 1;
  int columns = 1;
};

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
  // Of the largest piece.
  std::int64_t padded_depth() const {
    return std::min(RoundUp(depth, unit), CeilDiv(depth_blocks, pieces) * depth_block);
  }
  bool deep() const { return pieces > 1; }
  int parts() const { return grid.rows * grid.columns; }
  // Blocks of c that threads take one by one.
  std::int64_t RowBlocks(std::int64_t panels) const { return BlocksOf(panels, row_panels, grid.rows); }
  std::int64_t ColumnBlocks(std::int64_t panels) const { return BlocksOf(panels, column_panels, grid.columns); }
  // Of a buffer of sums, in floats: a cache line more than a row of a block, lest rows share few sets of a cache.
  std::int64_t sums_stride() const { return column_panels * tile_columns + 16; }
  // Floats of a buffer of sums: of a block, or of one row of tiles where the depth is not cut.
  std::int64_t sums() const { return sums_stride() * tile_rows * (depth_blocks > 1 ? row_panels : 1); }

  std::int64_t depth;
  std::int64_t unit;
  std::int64_t tile_rows;
  std::int64_t tile_columns;
  std::int64_t depth_blocks;  // how many
  std::int64_t depth_block;   // depths of one, a multiple of unit
  std::int64_t pieces;        // of depth: sums of c wait in memory for the next one
  // Panels of a block for the second-level cache.
  std::int64_t row_panels;
  std::int64_t column_panels;
  // Rows and columns of c whose operands are packed at a time; multiples of the tile's.
  std::int64_t rows_at_once;
  std::int64_t columns_at_once;
  ThreadGrid grid;
  int sums_buffers;  // one per thread, or in a deep product one per block of c
  // No two threads read the same rows, and a block of them fits the second-level cache: each packs its own.
  bool packs_own_rows = false;
};

}  // namespace trireme
