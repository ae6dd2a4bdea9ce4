// Which elements of a parameter a slice holds, without speaking of layouts: a few pieces, each a run that repeats at a
// stride. A column cut of a matrix is one run a row, and so one piece; a ZeRO shard of it has two more for its ragged
// ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/parameter_table.h"

namespace trireme {

// Elements first + i * stride … + count, for 0 <= i < times, of the flattened parameter.
struct SlicePiece {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t stride = 0;
  std::int64_t times = 1;
  bool operator==(const SlicePiece&) const = default;
};

// The `global` sides of runs, in their order; SliceRun::local plays no part.
std::vector<SlicePiece> PiecesOf(std::span<const SliceRun> runs);
// The runs of pieces: `local` counts the slice's elements in the order of the pieces. Sorted by `global`.
std::vector<SliceRun> RunsOf(std::span<const SlicePiece> pieces);
std::int64_t ElementsOf(std::span<const SlicePiece> pieces);
// First element, and one beyond the last. Requires at least one piece.
std::int64_t LowestOf(std::span<const SlicePiece> pieces);
std::int64_t HighestOf(std::span<const SlicePiece> pieces);
// An Error unless every piece has elements, does not overlap itself, and lies within [0, count); and unless the pieces
// have `elements` elements together.
struct PieceBounds {
  std::int64_t count = 0;
  std::int64_t elements = 0;
};
void RequireWithin(std::span<const SlicePiece> pieces, const PieceBounds& bounds, const std::string& origin,
                   const std::string& tensor);

}  // namespace trireme
