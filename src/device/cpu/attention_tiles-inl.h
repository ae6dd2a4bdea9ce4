// What the two attention passes share: where heads lie in packed rows, which keys a block of queries sees, and the
// softmax weights of a block. A block is kQueryBlock queries of one head against all keys that any of them sees, so
// the largest buffer is kQueryBlock x T. Compiled once per instruction level: Highway's guard instead of #pragma once.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "device/cpu/vector_math.h"
#include "device/ops.h"

#if defined(TRIREME_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_ATTENTION_TILES_INL_H_
#undef TRIREME_ATTENTION_TILES_INL_H_
#else
#define TRIREME_ATTENTION_TILES_INL_H_
#endif

#include "device/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

inline constexpr std::int64_t kQueryBlock = 4 * kTileRows;

// Sizes of an attention call, padded to whole panels where `padded` says so.
struct AttentionSizes {
  explicit AttentionSizes(const AttentionArgs& args)
      : sequence(args.sequence),
        head_size(args.head_size),
        group(args.heads / args.kv_heads),
        row_width((args.heads + 2 * args.kv_heads) * args.head_size),
        out_width(args.heads * args.head_size),
        padded_sequence(RoundUp(args.sequence, kPanel)),
        padded_head(RoundUp(args.head_size, kPanel)) {}
  std::int64_t sequence;
  std::int64_t head_size;
  std::int64_t group;  // query heads of one key head
  std::int64_t row_width;
  std::int64_t out_width;
  std::int64_t padded_sequence;
  std::int64_t padded_head;
};

// Queries [first, last) of one sequence, and the keys they see. first_key is a multiple of kPanel.
struct QueryBlock {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t first_key = 0;
  std::int64_t rows() const { return last - first; }
  std::int64_t keys() const { return last - first_key; }
};

// First key that position t of a sequence sees; itself at the latest.
inline std::int64_t FirstKey(const AttentionArgs& args, std::int64_t batch, std::int64_t t) {
  if (!args.document_starts.given()) {
    return 0;
  }
  const std::int64_t start = args.document_starts.as<std::int32_t>()[batch * args.sequence + t];
  return std::clamp<std::int64_t>(start, 0, t);
}

inline QueryBlock MakeQueryBlock(const AttentionArgs& args, std::int64_t batch, std::int64_t first) {
  QueryBlock block{first, std::min(first + kQueryBlock, args.sequence), first};
  for (std::int64_t t = block.first; t < block.last; ++t) {
    block.first_key = std::min(block.first_key, FirstKey(args, batch, t));
  }
  block.first_key -= block.first_key % kPanel;
  return block;
}

// Rows of `source`, times factor, as fp32 [rows, head_size].
template <typename T>
void LoadRows(const T* source, std::int64_t stride, std::int64_t rows, std::int64_t columns, float factor, float* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      to[row * columns + i] = factor * static_cast<float>(source[row * stride + i]);
    }
  }
}

// Keys [begin, end) that one query sees, counted from its block's first key, and the whole vectors around them: a loop
// over [vector_begin, vector_end) has no remainder. Scores of the edges are set to minus infinity.
struct KeyRange {
  KeyRange(const QueryBlock& block, std::int64_t first_key, std::int64_t t)
      : begin(first_key - block.first_key),
        end(t + 1 - block.first_key),
        vector_begin(begin - begin % kVectorFloats),
        vector_end(RoundUp(end, kVectorFloats)) {}
  std::int64_t begin;
  std::int64_t end;
  std::int64_t vector_begin;
  std::int64_t vector_end;
};

// Makes raw scores of the query at position t ready for the exponential: adds slope * (key - t), masks the edges.
inline void PrepareScores(float* scores, const KeyRange& range, float slope, std::int64_t key_offset) {
  if (slope != 0) {
    const auto offset = static_cast<std::int32_t>(key_offset);
#pragma omp simd
    for (std::int64_t i = range.vector_begin; i < range.vector_end; ++i) {
      scores[i] += slope * static_cast<float>(offset + static_cast<std::int32_t>(i));
    }
  }
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  std::fill(scores + range.vector_begin, scores + range.begin, kMinusInfinity);
  std::fill(scores + range.end, scores + range.vector_end, kMinusInfinity);
}

// Zeroes what a row of `keys` elements holds outside the range.
inline void ClearOutside(float* row, const KeyRange& range, std::int64_t keys) {
  std::fill(row, row + range.begin, 0.0F);
  std::fill(row + range.end, row + std::max(keys, range.end), 0.0F);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
