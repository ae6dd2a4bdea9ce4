#include "device/cpu/product/product_plan.h"

namespace trireme {
namespace {

// Blocks of c: 128 KiB of sums beside 128 or 256 KiB of each operand fit half of a cache of 1 MiB; two threads may
// share one.
constexpr std::int64_t kBlockRows = 128;
constexpr std::int64_t kBlockColumns = 256;
// Most rows that a thread packs itself, where their sums need no room: columns are loaded for each block of them.
constexpr std::int64_t kOwnRows = 256;
constexpr std::int64_t kOwnBytes = 512 << 10;
// Columns that stay in a core's cache, all of them, from one block to the next.
constexpr std::int64_t kKeptBytes = 1280 << 10;
// Elements of a packed operand, and about those of sums that wait for the next piece of the depth: bounds the memory.
// Threads meet twice for each, so that many of them need more.
std::int64_t ElementsAtOnce(int threads) { return std::int64_t{std::clamp(threads, 8, 64)} << 20; }
// Rows for which there is room beside the depths of a piece, which is packed at a time: fewer would be few blocks for
// threads to take.
constexpr std::int64_t kRowsBesidePiece = 4096;
// Rows of a step.
constexpr std::int64_t kStepRows = 32;

// Cost of loading a panel from the shared cache into a core's own caches, in tiles. An estimate: with it the plans of
// 124M's products on 16 threads of a Xeon were among the fastest.
constexpr double kTilesPerPanel = 2;

// What a plan is chosen by, in panels.
struct PanelCounts {
  std::int64_t rows;  // of c
  std::int64_t columns;
  std::int64_t step_rows;
  std::int64_t block_rows;  // of a block of c that fits the second-level cache
  std::int64_t block_columns;
  std::int64_t own_rows;  // of a block whose rows a thread packs itself; 0 where they do not fit that cache
  bool keeps_columns;     // in a core's cache
};

double TimeOf(std::int64_t tiles, std::int64_t panels) {
  return static_cast<double>(tiles) + kTilesPerPanel * static_cast<double>(panels);
}

// Threads wait for half of the last piece of work on average.
double ShareWaited(int threads) { return 0.5 * (threads - 1) / threads; }

// Blocks whose rows a thread packs itself: as many for each thread.
std::int64_t OwnBlocks(const PanelCounts& counts, int threads) {
  return RoundUp(CeilDiv(counts.rows, counts.own_rows), threads);
}

// In tiles. Rows that a thread has packed are in its cache; it loads all columns for each of its blocks, or once.
double TimeOfOwnRows(const PanelCounts& counts, int threads) {
  const std::int64_t blocks = OwnBlocks(counts, threads);
  const std::int64_t tiles = CeilDiv(counts.rows, blocks) * counts.columns;
  const std::int64_t of_thread = blocks / threads;
  const double count = static_cast<double>(of_thread) + ShareWaited(threads);
  return counts.keeps_columns ? count * TimeOf(tiles, 0) + TimeOf(0, counts.columns)
                              : count * TimeOf(tiles, counts.columns);
}

// In tiles. A thread loads its rows once, and the columns of a block for each block of rows.
double TimeOfSharedRows(const PanelCounts& counts, std::int64_t column_blocks, int threads) {
  const std::int64_t columns = CeilDiv(counts.columns, column_blocks);
  const std::int64_t steps = CeilDiv(counts.rows, counts.step_rows) * column_blocks;
  const std::int64_t rows = CeilDiv(steps, threads) * counts.step_rows;
  return TimeOf(rows * columns, rows + CeilDiv(rows, counts.block_rows) * columns) +
         ShareWaited(threads) * static_cast<double>(counts.step_rows * columns);
}

// The fastest number of blocks of columns.
std::int64_t ChooseColumnBlocks(const PanelCounts& counts, int threads) {
  std::int64_t best = CeilDiv(counts.columns, counts.block_columns);
  for (std::int64_t blocks = best + 1; blocks <= std::min<std::int64_t>(counts.columns, best + threads); ++blocks) {
    if (TimeOfSharedRows(counts, blocks, threads) < TimeOfSharedRows(counts, best, threads)) {
      best = blocks;
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

int ThreadsWorth(const ProductSizes& sizes, int threads) {
  constexpr std::int64_t kGrain = 1 << 18;  // multiply-adds
  return static_cast<int>(std::clamp<std::int64_t>(sizes.m * sizes.n * sizes.k / kGrain, 1, threads));
}

ProductPlan::ProductPlan(const ProductKernel& kernel, const ProductSizes& sizes, int threads)
    : depth(sizes.k),
      unit(kernel.unit),
      tile_rows(kernel.rows),
      tile_columns(kernel.columns),
      depth_blocks(CeilDiv(sizes.k, kernel.longest_depth)),
      depth_block(RoundUp(CeilDiv(sizes.k, depth_blocks), kernel.unit)),
      row_step(CeilDiv(kStepRows, kernel.rows)),
      row_panels(RoundUp(CeilDiv(kBlockRows, kernel.rows), row_step)),
      column_panels(CeilDiv(kBlockColumns, kernel.columns)) {
  depth_blocks = CeilDiv(sizes.k, depth_block);
  const std::int64_t elements = ElementsAtOnce(threads);
  pieces = CeilDiv(depth, elements / kRowsBesidePiece);
  const auto at_once = [&](std::int64_t length, int width) {
    return std::max<std::int64_t>(1, elements / length / width) * width;
  };
  rows_at_once = std::min(at_once(padded_depth(), kernel.rows), RoundUp(sizes.m, kernel.rows));
  columns_at_once = std::min(at_once(deep() ? std::max(padded_depth(), rows_at_once) : padded_depth(), kernel.columns),
                             RoundUp(sizes.n, kernel.columns));
  parts = ThreadsWorth(sizes, threads);
  const std::int64_t element = kernel.packed == OperandType::kBFloat16 ? 2 : 4;
  const std::int64_t panel_bytes = padded_depth() * kernel.rows * element;
  const std::int64_t fitting = deep() ? 0 : kOwnBytes / panel_bytes;
  const bool fits = fitting >= std::min<std::int64_t>(row_panels, 4);
  const std::int64_t most_own = depth_blocks > 1 ? row_panels : CeilDiv(kOwnRows, kernel.rows);
  const PanelCounts counts{.rows = rows_at_once / kernel.rows,
                           .columns = columns_at_once / kernel.columns,
                           .step_rows = row_step,
                           .block_rows = row_panels,
                           .block_columns = column_panels,
                           .own_rows = fits ? std::min(most_own, fitting) : 0,
                           .keeps_columns = columns_at_once * padded_depth() * element <= kKeptBytes};
  const std::int64_t column_blocks = ChooseColumnBlocks(counts, parts);
  packs_own_rows = fits && TimeOfOwnRows(counts, parts) < TimeOfSharedRows(counts, column_blocks, parts);
  if (packs_own_rows) {
    row_panels = CeilDiv(counts.rows, OwnBlocks(counts, parts));
  } else {
    column_panels = CeilDiv(counts.columns, column_blocks);
  }
}

}  // namespace trireme
