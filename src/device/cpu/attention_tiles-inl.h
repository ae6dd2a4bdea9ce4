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
        keys(args.keys()),
        staged(args.kv.given() ? args.keys() : 0),
        head_size(args.head_size),
        group(args.heads / args.kv_heads),
        row_width((args.heads + 2 * args.kv_heads) * args.head_size),
        out_width(args.heads * args.head_size),
        query_block(products.query_block()),
        key_step(products.panel() * products.unit()),
        key_columns(RoundUp(RoundUp(keys, products.panel()), products.unit())),
        key_rows(keys + products.tile_rows() - 1),
        head_columns(RoundUp(args.head_size, products.panel())),
        key_depth(RoundUp(keys, products.unit())),
        head_depth(RoundUp(args.head_size, products.unit())),
        block_depth(RoundUp(products.query_block(), products.unit())) {}
  std::int64_t sequence;  // queries of a sequence
  std::int64_t keys;      // of a sequence
  std::int64_t staged;    // of them copied before they are packed
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

// How many of a call's keys stand before `position`: keys are columns in the order of their positions.
inline std::int64_t ColumnOf(const AttentionArgs& args, std::int64_t position) {
  if (!args.kv.given()) {
    return position;
  }
  std::int64_t columns = 0;
  for (const KeyChunk& chunk : args.key_chunks) {
    columns += std::clamp<std::int64_t>(position - chunk.position, 0, args.chunk());
  }
  return columns;
}

// Queries [first, last) of one sequence at consecutive positions, and the keys, by column, among which those lie that
// they see. first_key is a multiple of key_step.
struct QueryBlock {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t position = 0;  // of the first
  std::int64_t first_key = 0;
  std::int64_t end_key = 0;
  std::int64_t rows() const { return last - first; }
  std::int64_t keys() const { return end_key - first_key; }
};

// First position that query i of a sequence, which stands at `position`, sees; its own at the latest.
inline std::int64_t FirstSeen(const AttentionArgs& args, std::int64_t batch, std::int64_t i, std::int64_t position) {
  const std::int64_t first = args.window > 0 ? std::max<std::int64_t>(position + 1 - args.window, 0) : 0;
  if (!args.document_starts.given()) {
    return first;
  }
  const std::int64_t start = args.document_starts.as<std::int32_t>()[batch * args.sequence + i];
  return std::clamp<std::int64_t>(start, first, position);
}

inline QueryBlock MakeQueryBlock(const AttentionArgs& args, const AttentionSizes& sizes, std::int64_t batch,
                                 std::int64_t first) {
  const std::int64_t chunk_end = first - first % args.chunk() + args.chunk();
  const std::int64_t position = args.Position(first);
  QueryBlock block{.first = first, .last = std::min(first + sizes.query_block, chunk_end), .position = position};
  std::int64_t seen = position;
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    seen = std::min(seen, FirstSeen(args, batch, first + i, position + i));
  }
  block.end_key = ColumnOf(args, position + block.rows());
  block.first_key = ColumnOf(args, seen);
  block.first_key -= block.first_key % sizes.key_step;
  return block;
}

// Keys or values of one head at consecutive positions of a sequence, as they lie in memory.
struct KeyRun {
  std::int64_t first = 0;  // position
  std::int64_t count = 0;
  std::int64_t offset = 0;  // of the first key's first element; its value's lies value_offset further
};

// The runs of a key head: one where keys lie in qkv, one per chunk where they lie in kv.
class KeyRuns {
 public:
  KeyRuns(const AttentionArgs& args, std::int64_t batch, std::int64_t kv_head)
      : args_(args),
        stride_((args.kv.given() ? 0 : args.heads * args.head_size) + 2 * args.kv_heads * args.head_size),
        first_row_(batch * args.sequence),
        column_((args.kv.given() ? kv_head : args.heads + kv_head) * args.head_size) {}

  std::int64_t stride() const { return stride_; }
  std::int64_t value_offset() const { return args_.kv_heads * args_.head_size; }
  std::int64_t size() const { return args_.kv.given() ? static_cast<std::int64_t>(args_.key_chunks.size()) : 1; }
  KeyRun operator[](std::int64_t i) const {
    const std::int64_t row = first_row_ + (args_.kv.given() ? args_.key_chunks[static_cast<std::size_t>(i)].row : 0);
    return {i * args_.chunk(), args_.chunk(), row * stride_ + column_};
  }

 private:
  const AttentionArgs& args_;
  std::int64_t stride_;
  std::int64_t first_row_;
  std::int64_t column_;
};

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

// Keys (or, with `values`, values) of all positions of a head. A single run is taken where it lies, several are copied
// to `staging` [keys, head_size] first.
template <typename T, typename E, typename Use>
void WithKeys(const AttentionArgs& args, const KeyRuns& runs, bool values, E* staging, const Use& use) {
  const T* data = (args.kv.given() ? args.kv : args.qkv).as<T>() + (values ? runs.value_offset() : 0);
  if (!args.kv.given()) {
    return use(MatrixView<T>{data + runs[0].offset, runs.stride(), args.keys(), args.head_size});
  }
  for (std::int64_t i = 0; i < runs.size(); ++i) {
    const KeyRun run = runs[i];
    LoadRows<T, E>({data + run.offset, runs.stride(), run.count, args.head_size}, staging + run.first * args.head_size);
  }
  use(MatrixView<E>{staging, args.head_size, args.keys(), args.head_size});
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

// Keys [begin, end) that query i of a block sees, counted from the block's first key, and the whole vectors around
// them: a loop over [vector_begin, vector_end) has no remainder. Scores of the edges are set to minus infinity.
struct KeyRange {
  KeyRange(const AttentionArgs& args, const QueryBlock& block, std::int64_t batch, std::int64_t i)
      : begin(ColumnOf(args, FirstSeen(args, batch, block.first + i, block.position + i)) - block.first_key),
        end(ColumnOf(args, block.position + i + 1) - block.first_key),
        vector_begin(begin - begin % kVectorFloats),
        vector_end(RoundUp(end, kVectorFloats)) {}
  bool empty() const { return begin >= end; }
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
  const AttentionArgs* chunks = nullptr;  // where keys leave out positions, which slopes count
};

inline ScoreRule RuleOf(const AttentionArgs& args, std::int64_t head) {
  const bool sloped = args.slopes.given();
  return {args.scale, sloped ? args.slopes.as<float>()[head] : 0.0F, args.cap,
          sloped && args.kv.given() ? &args : nullptr};
}

// What slopes add for positions that lie between chunks of keys.
inline void AddGaps(float* scores, const KeyRange& range, const ScoreRule& rule, std::int64_t first_key) {
  const std::int64_t length = rule.chunks->chunk();
  std::int64_t column = -first_key;
  for (const KeyChunk& chunk : rule.chunks->key_chunks) {
    const float added = rule.slope * static_cast<float>(chunk.position - (column + first_key));
    const std::int64_t end = std::min(column + length, range.vector_end);
    for (std::int64_t i = std::max(column, range.vector_begin); i < end; ++i) {
      scores[i] += added;
    }
    column += length;
  }
}

// Makes the products of the query at `position` scores, ready for the exponential: masks the edges. first_key: of its
// block.
inline void PrepareScores(float* scores, const KeyRange& range, const ScoreRule& rule, std::int64_t first_key,
                          std::int64_t position) {
  const auto offset = static_cast<std::int32_t>(first_key - position);
#pragma omp simd
  for (std::int64_t i = range.vector_begin; i < range.vector_end; ++i) {
    scores[i] = rule.scale * scores[i] + rule.slope * static_cast<float>(offset + static_cast<std::int32_t>(i));
  }
  if (rule.chunks != nullptr) {
    AddGaps(scores, range, rule, first_key);
  }
  if (rule.cap > 0) {
    const float cap = rule.cap;
    const float reciprocal = 1.0F / cap;
#pragma omp simd
    for (std::int64_t i = range.vector_begin; i < range.vector_end; ++i) {
      scores[i] = cap * VectorTanh(scores[i] * reciprocal);
    }
  }
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  std::fill(scores + range.vector_begin, scores + range.begin, kMinusInfinity);
  std::fill(scores + range.end, scores + range.vector_end, kMinusInfinity);
}

// Which query, of which head and sequence, a row of weights belongs to.
struct WeightRow {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t position;
};

// Drops weights of a query, or multiplies what passes back to them: see AttentionArgs::dropout.
inline void DropRow(float* row, const AttentionArgs& args, const QueryBlock& block, const KeyRange& range,
                    const WeightRow& place) {
  const float probability = args.dropout.probability;
  if (probability <= 0) {
    return;
  }
  const float kept = 1.0F / (1.0F - probability);
  const std::uint64_t key = args.dropout.key;
  const std::int64_t line = (place.batch * args.all_heads + place.head) * args.all_positions + place.position;
  const std::int64_t first_element = args.dropout.first_element + line * args.all_positions;
  const std::int64_t length = args.chunk();
  const std::int64_t chunks = args.keys() / length;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    // Columns of the row that hold this chunk's keys, and what makes a column a key's element.
    const std::int64_t column = chunk * length - block.first_key;
    const std::int64_t position = args.kv.given() ? args.key_chunks[static_cast<std::size_t>(chunk)].position : 0;
    const auto first = static_cast<std::uint64_t>(first_element + position - column);
    const std::int64_t end = std::min(column + length, range.end);
#pragma omp simd
    for (std::int64_t i = std::max(column, range.begin); i < end; ++i) {
      const float uniform = RandomUniform(key, first + static_cast<std::uint64_t>(i));
      row[i] = uniform < probability ? 0.0F : row[i] * kept;
    }
  }
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
  const int parts = PartCount(workers.threads, count, 1);
  workers.scratch.Reserve(parts, floats);
  SharedItems items(count);
  ParallelParts(workers.threads, parts, [&](int part) {
    if (workers.kernel.enter != nullptr) {
      workers.kernel.enter();
    }
    for (std::int64_t i = 0; items.Take(i);) {
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
