#include "device/cpu/product/product_plan.h"

namespace trireme {
namespace {

// Blocks of c: 256 KiB of sums beside 128 or 256 KiB of each operand fit a cache of 1 MiB.
constexpr std::int64_t kBlockRows = 256;
constexpr std::int64_t kBlockColumns = 256;
// Of the rows that are packed together.
constexpr std::int64_t kBlockBytes = 512 << 10;
// Elements of a packed operand, which bounds the engine's memory.
constexpr std::int64_t kElementsAtOnce = 8 << 20;
// Multiply-adds that are worth a thread.
constexpr std::int64_t kThreadGrain = 1 << 18;

// The grid of at most `parts` threads whose largest part has the fewest tiles; of equal ones, that whose parts read
// least, where rows that a thread packs itself, with `own_rows` in a grid of one column, count as not read.
ThreadGrid ChooseGrid(std::int64_t row_panels, std::int64_t column_panels, int parts, bool own_rows) {
  ThreadGrid best;
  std::int64_t best_tiles = row_panels * column_panels;
  std::int64_t best_read = row_panels + column_panels;
  for (int rows = 1; rows <= std::min<std::int64_t>(parts, row_panels); ++rows) {
    const int columns = static_cast<int>(std::min<std::int64_t>(parts / rows, column_panels));
    const std::int64_t high = CeilDiv(row_panels, rows);
    const std::int64_t wide = CeilDiv(column_panels, columns);
    const std::int64_t read = (own_rows && columns == 1 ? 0 : high) + wide;
    if (high * wide < best_tiles || (high * wide == best_tiles && read < best_read)) {
      best = {rows, columns};
      best_tiles = high * wide;
      best_read = read;
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
      blocks(CeilDiv(sizes.k, kernel.longest_depth)),
      depth_block(RoundUp(CeilDiv(sizes.k, blocks), kernel.unit)),
      row_panels(CeilDiv(kBlockRows, kernel.rows)),
      column_panels(CeilDiv(kBlockColumns, kernel.columns)) {
  blocks = CeilDiv(sizes.k, depth_block);
  const auto at_once = [&](int width) {
    return std::max<std::int64_t>(1, kElementsAtOnce / padded_depth() / width) * width;
  };
  rows_at_once = at_once(kernel.rows);
  columns_at_once = at_once(kernel.columns);
  const std::int64_t work = sizes.m * sizes.n * sizes.k / kThreadGrain;
  const int parts = static_cast<int>(std::clamp<std::int64_t>(work, 1, threads));
  const std::int64_t element = kernel.packed == OperandType::kBFloat16 ? 2 : 4;
  const std::int64_t fitting = kBlockBytes / (padded_depth() * kernel.rows * element);
  const bool fits = fitting >= std::min<std::int64_t>(row_panels, 4);
  grid = ChooseGrid(CeilDiv(std::min(sizes.m, rows_at_once), kernel.rows),
                    CeilDiv(std::min(sizes.n, columns_at_once), kernel.columns), parts, fits);
  packs_own_rows = grid.columns == 1 && fits;
  if (packs_own_rows) {
    // Blocks that threads take one by one: several each where there are rows enough, none much smaller than the others.
    const std::int64_t panels = CeilDiv(std::min(sizes.m, rows_at_once), kernel.rows);
    const std::int64_t rounds = CeilDiv(panels, std::min(row_panels, fitting) * grid.rows);
    row_panels = CeilDiv(panels, rounds * grid.rows);
  }
}

}  // namespace trireme
