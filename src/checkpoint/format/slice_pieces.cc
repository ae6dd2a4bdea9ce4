#include "checkpoint/format/slice_pieces.h"

#include <algorithm>

#include "base/error.h"
#include "base/wide_count.h"

namespace trireme {
namespace {

std::int64_t EndOf(const SlicePiece& piece) { return piece.first + (piece.times - 1) * piece.stride + piece.count; }

// Whether a run continues the piece, which it then does.
bool Continues(SlicePiece& piece, const SliceRun& run) {
  if (run.count != piece.count) {
    return false;
  }
  if (piece.times == 1) {
    if (run.global < piece.first + piece.count) {
      return false;
    }
    piece.stride = run.global - piece.first;
  } else if (run.global != piece.first + piece.times * piece.stride) {
    return false;
  }
  ++piece.times;
  return true;
}

}  // namespace

std::vector<SlicePiece> PiecesOf(std::span<const SliceRun> runs) {
  std::vector<SlicePiece> pieces;
  for (const SliceRun& run : runs) {
    if (run.count > 0 && (pieces.empty() || !Continues(pieces.back(), run))) {
      pieces.push_back({.first = run.global, .count = run.count});
    }
  }
  return pieces;
}

std::vector<SliceRun> RunsOf(std::span<const SlicePiece> pieces) {
  std::vector<SliceRun> runs;
  std::int64_t local = 0;
  for (const SlicePiece& piece : pieces) {
    for (std::int64_t i = 0; i < piece.times; ++i) {
      runs.push_back({.local = local, .global = piece.first + i * piece.stride, .count = piece.count});
      local += piece.count;
    }
  }
  std::sort(runs.begin(), runs.end(), [](const SliceRun& a, const SliceRun& b) { return a.global < b.global; });
  return runs;
}

std::int64_t ElementsOf(std::span<const SlicePiece> pieces) {
  std::int64_t count = 0;
  for (const SlicePiece& piece : pieces) {
    count += piece.count * piece.times;
  }
  return count;
}

std::int64_t LowestOf(std::span<const SlicePiece> pieces) {
  return std::min_element(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; })
      ->first;
}

std::int64_t HighestOf(std::span<const SlicePiece> pieces) {
  std::int64_t highest = 0;
  for (const SlicePiece& piece : pieces) {
    highest = std::max(highest, EndOf(piece));
  }
  return highest;
}

void RequireWithin(std::span<const SlicePiece> pieces, const PieceBounds& bounds, const std::string& origin,
                   const std::string& tensor) {
  WideCount elements = 0;
  for (const SlicePiece& piece : pieces) {
    Require(piece.first >= 0 && piece.count > 0 && piece.times > 0 && (piece.times == 1 || piece.stride >= piece.count),
            "'{}': a piece [{}, {}, {}, {}] of '{}' is no run of elements", origin, piece.first, piece.count,
            piece.stride, piece.times, tensor);
    const WideCount end = (piece.times == 1 ? 0 : WideProduct(piece.times - 1, piece.stride)) +
                          static_cast<WideCount>(piece.first) + static_cast<WideCount>(piece.count);
    Require(end <= static_cast<WideCount>(bounds.count),
            "'{}': a piece [{}, {}, {}, {}] leaves the {} elements of '{}'", origin, piece.first, piece.count,
            piece.stride, piece.times, bounds.count, tensor);
    elements += WideProduct(piece.count, piece.times);
  }
  Require(elements == static_cast<WideCount>(bounds.elements),
          "'{}': the pieces of '{}' do not have the {} elements that are stored", origin, tensor, bounds.elements);
}

}  // namespace trireme
