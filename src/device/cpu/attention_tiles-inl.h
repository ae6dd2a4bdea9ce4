// What the two attention passes share: where heads lie in packed rows, which keys a block of queries sees, and the
// scores of a block. A block is some queries of one head against all keys that any of them sees, so the largest buffer
// is a block of queries x T. Compiled once per instruction level: Highway's guard instead of #pragma once.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/random.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"
#include "device/cpu/scratch.h"
#include "device/cpu/vector_math.h"
#include "device/ops.h"

#if defined(TRIREME_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_ATTENTION_TILES_INL_H_
#undef TRIREME_ATTENTION_TILES_INL_H_
#else
#define TRIREME_ATTENTION_TILES_INL_H_
#endif

#include "device/cpu/attention_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

// Sizes of an attention call, padded as its products ask.
struct AttentionSizes {
  template <typename Products>
  AttentionSizes(const AttentionArgs& args, const Products& products)
      : sequence(args.sequence),
        head_size(args.head_size),
        group(args.heads / args.kv_heads),
        row_width((args.heads + 2 * args.kv_heads) * args.head_size),
        out_width(args.heads * args.head_size),
        query_block(products.query_block()),
        key_step(products.panel() * products.unit()),
        key_columns(RoundUp(RoundUp(args.sequence, products.panel()), products.unit())),
        key_rows(args.sequence + products.tile_rows() - 1),
        head_columns(RoundUp(args.head_size, products.panel())),
        key_depth(RoundUp(args.sequence, products.unit())),
        head_depth(RoundUp(args.head_size, products.unit())),
        block_depth(RoundUp(products.query_block(), products.unit())) {}
  std::int64_t sequence;
  std::int64_t head_size;
  std::int64_t group;  // query heads of one key head
  std::int64_t row_width;
  std::int64_t out_width;
  std::int64_t query_block;
  std::int64_t key_step;      // a block's first key is a multiple of it
  std::int64_t key_columns;   // of scores
  std::int64_t key_rows;      // of sums with a row per key: whole tiles from any key on
  std::int64_t head_columns;  // of sums over keys or queries
  std::int64_t key_depth;     // of operands whose depth are keys, head elements, queries of a block
  std::int64_t head_depth;
  std::int64_t block_depth;
};

// Queries [first, last) of one sequence, and the keys they see. first_key is a multiple of key_step.
struct QueryBlock {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t first_key = 0;
  std::int64_t rows() const { return last - first; }
  std::int64_t keys() const { return last - first_key; }
};

// First key that position t of a sequence sees; itself at the latest.
inline std::int64_t FirstKey(const AttentionArgs& args, std::int64_t batch, std::int64_t t) {
  const std::int64_t first = args.window > 0 ? std::max<std::int64_t>(t + 1 - args.window, 0) : 0;
  if (!args.document_starts.given()) {
    return first;
  }
  const std::int64_t start = args.document_starts.as<std::int32_t>()[batch * args.sequence + t];
  return std::clamp<std::int64_t>(start, first, t);
}

inline QueryBlock MakeQueryBlock(const AttentionArgs& args, const AttentionSizes& sizes, std::int64_t batch,
                                 std::int64_t first) {
  QueryBlock block{first, std::min(first + sizes.query_block, args.sequence), first};
  for (std::int64_t t = block.first; t < block.last; ++t) {
    block.first_key = std::min(block.first_key, FirstKey(args, batch, t));
  }
  block.first_key -= block.first_key % sizes.key_step;
  return block;
}

// Rows of `source` as a left operand [rows, columns].
template <typename T, typename E>
void LoadRows(const MatrixView<T>& from, E* to) {
  for (std::int64_t row = 0; row < from.rows; ++row) {
#pragma omp simd
    for (std::int64_t i = 0; i < from.columns; ++i) {
      to[row * from.columns + i] = Narrow<E>(static_cast<float>(from.data[row * from.stride + i]));
    }
  }
}

// A row of fp32 scores as elements of a left operand; nothing to do where that is the same memory.
template <typename E>
void StoreElements(const float* from, E* to, std::int64_t count) {
  if constexpr (!std::is_same_v<E, float>) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = Narrow<E>(from[i]);
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

// How raw products of queries and keys become scores: scale * product + slope * (key - query), softly capped where cap
// is above 0.
struct ScoreRule {
  float scale = 1;
  float slope = 0;
  float cap = 0;
};

inline ScoreRule RuleOf(const AttentionArgs& args, std::int64_t head) {
  return {args.scale, args.slopes.given() ? args.slopes.as<float>()[head] : 0.0F, args.cap};
}

// Makes the products of the query at position t scores, ready for the exponential: masks the edges. `key_offset` is the
// block's first key less t.
inline void PrepareScores(float* scores, const KeyRange& range, const ScoreRule& rule, std::int64_t key_offset) {
  const auto offset = static_cast<std::int32_t>(key_offset);
#pragma omp simd
  for (std::int64_t i = range.vector_begin; i < range.vector_end; ++i) {
    scores[i] = rule.scale * scores[i] + rule.slope * static_cast<float>(offset + static_cast<std::int32_t>(i));
  }
  if (rule.cap > 0) {
    const float reciprocal = 1.0F / rule.cap;
#pragma omp simd
    for (std::int64_t i = range.vector_begin; i < range.vector_end; ++i) {
      scores[i] = rule.cap * VectorTanh(scores[i] * reciprocal);
    }
  }
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  std::fill(scores + range.vector_begin, scores + range.begin, kMinusInfinity);
  std::fill(scores + range.end, scores + range.vector_end, kMinusInfinity);
}

// Drops weights of the query at position t, or multiplies what passes back to them: see AttentionArgs::dropout.
inline void DropRow(float* row, const AttentionArgs& args, const QueryBlock& block, const KeyRange& range,
                    std::int64_t line) {
  const float probability = args.dropout.probability;
  if (probability <= 0) {
    return;
  }
  const float kept = 1.0F / (1.0F - probability);
  const std::uint64_t key = args.dropout.key;
  const auto first = static_cast<std::uint64_t>(args.dropout.first_element + line * args.sequence + block.first_key);
#pragma omp simd
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const float uniform = RandomUniform(key, first + static_cast<std::uint64_t>(i));
    row[i] = uniform < probability ? 0.0F : row[i] * kept;
  }
}

// The number of a query's row of weights among those of all heads, from the call's first sequence on.
inline std::int64_t WeightLine(const AttentionArgs& args, std::int64_t batch, std::int64_t head, std::int64_t t) {
  return (batch * args.all_heads + head) * args.sequence + t;
}

// Zeroes what a row of `keys` elements holds outside the range.
inline void ClearOutside(float* row, const KeyRange& range, std::int64_t keys) {
  std::fill(row, row + range.begin, 0.0F);
  std::fill(row + range.end, row + std::max(keys, range.end), 0.0F);
}

// Buffers of one thread, cut from one piece of memory at multiples of a cache line. Without memory it only counts.
class BufferCutter {
 public:
  explicit BufferCutter(float* memory) : next_(memory) {}
  template <typename E>
  E* Take(std::int64_t elements) {
    const std::int64_t floats = RoundUp(CeilDiv(elements * static_cast<std::int64_t>(sizeof(E)), 4), 16);
    float* taken = next_ == nullptr ? nullptr : next_ + taken_;
    taken_ += floats;
    return reinterpret_cast<E*>(taken);
  }
  std::int64_t floats() const { return taken_; }

 private:
  float* next_;
  std::int64_t taken_ = 0;
};

// Calls function(type, products) with the working type and the products that suit it: `kernel` for bf16 where it has
// instructions of its own, otherwise fp32 tiles.
template <typename Function>
void WithAttentionProducts(DType dtype, const ProductKernel& kernel, const Function& function) {
  if (dtype == DType::kBFloat16 && kernel.packed == OperandType::kBFloat16) {
    function(BFloat16{}, PackedProducts(kernel));
  } else {
    DispatchWorkingType(dtype, [&](auto type) { function(type, FloatProducts()); });
  }
}

// What the heads of a call are divided among.
struct HeadWorkers {
  int threads;
  Scratch& scratch;
  const ProductKernel& kernel;
};

// Calls function(i, memory) for each i below `count`, with so many floats of memory of its thread.
template <typename Function>
void ParallelHeads(const HeadWorkers& workers, std::int64_t count, std::int64_t floats, const Function& function) {
  workers.scratch.Reserve(PartCount(workers.threads, count, 1), floats);
  ParallelRanges(workers.threads, count, 1, [&](int part, std::int64_t begin, std::int64_t end) {
    if (workers.kernel.enter != nullptr) {
      workers.kernel.enter();
    }
    for (std::int64_t i = begin; i < end; ++i) {
      function(i, workers.scratch.of(part));
    }
    if (workers.kernel.leave != nullptr) {
      workers.kernel.leave();
    }
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
