#include "device/cpu/product/product_plan.h"

namespace trireme {
namespace {

// Blocks of c: 256 KiB of sums beside 128 or 256 KiB of each operand fit a cache of 1 MiB.
constexpr std::int64_t kBlockRows = 256;
constexpr std::int64_t kBlockColumns = 256;
// Of the rows that are packed together.
constexpr std::int64_t kBlockBytes = 512 << 10;
// Elements of a packed operand, and about those of sums that wait for the next piece of the depth: bounds the memory.
constexpr std::int64_t kElementsAtOnce = 8 << 20;
// Depths of a piece, which is packed at a time: fewer leave room for more rows, which are more blocks for threads to
// take.
constexpr std::int64_t kPieceDepth = 2048;
// Multiply-adds that are worth a thread.
constexpr std::int64_t kThreadGrain = 1 << 18;

// Cost of loading a panel from the shared cache into a core's own caches, in tiles. An estimate: with it the grids of
// 124M's products on 16 threads of a Xeon were among the fastest.
constexpr double kTilesPerPanel = 2;

// What a grid is chosen by, in panels.
struct GridSizes {
  std::int64_t rows;  // of c
  std::int64_t columns;
  std::int64_t block_rows;  // of a block of c that fits the second-level cache
  std::int64_t block_columns;
  std::int64_t own_rows;  // of a block whose rows a thread packs itself; 0 where they do not fit that cache
};

// Time of `blocks` blocks of rows x columns tiles, for each of which `panels` panels are loaded. Threads take them one
// by one and wait for the last one in the end, half a block on average.
double TimeOfBlocks(std::int64_t blocks, std::int64_t rows, std::int64_t columns, std::int64_t panels, int threads) {
  const double wait = 0.5 * (threads - 1) / threads;
  return (static_cast<double>(CeilDiv(blocks, threads)) + wait) *
         (static_cast<double>(rows * columns) + kTilesPerPanel * static_cast<double>(panels));
}

// In tiles. Panels of a block are loaded once; rows that a thread packs itself are in its cache.
double TimeOf(const GridSizes& sizes, const ThreadGrid& grid) {
  const int threads = grid.rows * grid.columns;
  if (grid.columns == 1 && sizes.own_rows > 0) {
    const std::int64_t blocks = BlocksOf(sizes.rows, sizes.own_rows, grid.rows);
    return TimeOfBlocks(blocks, CeilDiv(sizes.rows, blocks), sizes.columns, sizes.columns, threads);
  }
  const std::int64_t row_blocks = BlocksOf(sizes.rows, sizes.block_rows, grid.rows);
  const std::int64_t column_blocks = BlocksOf(sizes.columns, sizes.block_columns, grid.columns);
  const std::int64_t rows = CeilDiv(sizes.rows, row_blocks);
  const std::int64_t columns = CeilDiv(sizes.columns, column_blocks);
  return TimeOfBlocks(row_blocks * column_blocks, rows, columns, rows + columns, threads);
}

// The fastest grid of at most `parts` threads.
ThreadGrid ChooseGrid(const GridSizes& sizes, int parts) {
  ThreadGrid best;
  for (int rows = 1; rows <= std::min<std::int64_t>(parts, sizes.rows); ++rows) {
    const ThreadGrid grid{rows, static_cast<int>(std::min<std::int64_t>(parts / rows, sizes.columns))};
    if (TimeOf(sizes, grid) < TimeOf(sizes, best)) {
      best = grid;
    }
  }
  return best;
}

}  // namespace

StoreKind StoreKindOf(const MatmulArgs& args, bool accumulate) {
  switch (args.epilogue) {
    case Epilogue::kGelu:
      return StoreKind::kGelu;
    case Epilogue::kGeluGradient:
      return StoreKind::kGeluGradient;
    case Epilogue::kResidual:
      return StoreKind::kResidual;
    case Epilogue::kNone:
      break;
  }
  return accumulate ? StoreKind::kAccumulate : StoreKind::kPlain;
}

ProductPlan::ProductPlan(const ProductKernel& kernel, const ProductSizes& sizes, int threads)
    : depth(sizes.k),
      unit(kernel.unit),
      tile_rows(kernel.rows),
      tile_columns(kernel.columns),
      depth_blocks(CeilDiv(sizes.k, kernel.longest_depth)),
      depth_block(RoundUp(CeilDiv(sizes.k, depth_blocks), kernel.unit)),
      row_panels(CeilDiv(kBlockRows, kernel.rows)),
      column_panels(CeilDiv(kBlockColumns, kernel.columns)) {
  depth_blocks = CeilDiv(sizes.k, depth_block);
  pieces = CeilDiv(depth, kPieceDepth);
  const auto at_once = [](std::int64_t length, int width) {
    return std::max<std::int64_t>(1, kElementsAtOnce / length / width) * width;
  };
  rows_at_once = std::min(at_once(padded_depth(), kernel.rows), RoundUp(sizes.m, kernel.rows));
  columns_at_once = std::min(at_once(deep() ? std::max(padded_depth(), rows_at_once) : padded_depth(), kernel.columns),
                             RoundUp(sizes.n, kernel.columns));
  const std::int64_t work = sizes.m * sizes.n * sizes.k / kThreadGrain;
  const int most_parts = static_cast<int>(std::clamp<std::int64_t>(work, 1, threads));
  const std::int64_t element = kernel.packed == OperandType::kBFloat16 ? 2 : 4;
  const std::int64_t rows = rows_at_once / kernel.rows;
  const std::int64_t columns = columns_at_once / kernel.columns;
  const std::int64_t fitting = deep() ? 0 : kBlockBytes / (padded_depth() * kernel.rows * element);
  const bool fits = fitting >= std::min<std::int64_t>(row_panels, 4);
  const std::int64_t own_rows = fits ? std::min(row_panels, fitting) : 0;
  grid = ChooseGrid({.rows = rows,
                     .columns = columns,
                     .block_rows = row_panels,
                     .block_columns = column_panels,
                     .own_rows = own_rows},
                    most_parts);
  packs_own_rows = grid.columns == 1 && own_rows > 0;
  sums_buffers = parts();
  if (packs_own_rows) {
    row_panels = CeilDiv(rows, BlocksOf(rows, own_rows, grid.rows));
    return;
  }
  row_panels = CeilDiv(rows, RowBlocks(rows));
  column_panels = CeilDiv(columns, ColumnBlocks(columns));
  if (deep()) {
    sums_buffers = static_cast<int>(RowBlocks(rows) * ColumnBlocks(columns));
  }
}

}  // namespace trireme
