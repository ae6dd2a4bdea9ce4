#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_backward.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "device/cpu/attention_tiles-inl.h"
#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// Buffers of one thread, cut from one piece of memory. Without memory it only counts.
struct BackwardBuffers {
  BackwardBuffers(const AttentionSizes& sizes, float* memory) : next_(memory) {
    const std::int64_t transposed = sizes.padded_sequence * sizes.head_size;
    const std::int64_t columns = sizes.padded_head * sizes.sequence;
    keys_transposed = Take(transposed);
    values_transposed = Take(transposed);
    keys = Take(columns);
    grad_keys = Take(columns);
    grad_values = Take(columns);
    weights = Take(kQueryBlock * sizes.padded_sequence);
    grad_scores = Take(kQueryBlock * sizes.padded_sequence);
    queries = Take(kQueryBlock * sizes.head_size);
    grad_out = Take(kQueryBlock * sizes.head_size);
    query_panels = Take(kQueryBlock * sizes.padded_head);
    grad_out_panels = Take(kQueryBlock * sizes.padded_head);
    grad_queries = Take(kQueryBlock * sizes.padded_head);
  }
  std::int64_t floats() const { return taken_; }

  float* keys_transposed;    // panels of keys
  float* values_transposed;  // panels of keys
  float* keys;               // panels of columns
  float* grad_keys;          // [sequence, padded_head]
  float* grad_values;        // [sequence, padded_head]
  float* weights;            // [kQueryBlock, padded_sequence]
  float* grad_scores;        // [kQueryBlock, padded_sequence]
  float* queries;            // [kQueryBlock, head_size], times scale
  float* grad_out;           // [kQueryBlock, head_size]
  float* query_panels;       // panels of columns, depth = rows of the block
  float* grad_out_panels;
  float* grad_queries;  // [kQueryBlock, padded_head]

 private:
  float* Take(std::int64_t floats) {
    float* taken = next_ == nullptr ? nullptr : next_ + taken_;
    taken_ += floats;
    return taken;
  }
  float* next_;
  std::int64_t taken_ = 0;
};

// weights = exp(scores - log_sum) within the keys of query t, grad_scores = weights * (grad_scores - delta); 0
// elsewhere.
struct GradientRow {
  float* weights;
  float* grad_scores;
  float log_sum;
  float delta;
  float slope;
};

void ScoreGradientRow(const GradientRow& row, const QueryBlock& block, const KeyRange& range, std::int64_t t) {
  PrepareScores(row.weights, range, row.slope, block.first_key - t);
  float* weights = row.weights;
  float* grad_scores = row.grad_scores;
  const float log_sum = row.log_sum;
  const float delta = row.delta;
#pragma omp simd
  for (std::int64_t i = range.vector_begin; i < range.vector_end; ++i) {
    weights[i] = VectorExp(weights[i] - log_sum);
    grad_scores[i] = weights[i] * (grad_scores[i] - delta);
  }
  ClearOutside(weights, range, block.keys());
  ClearOutside(grad_scores, range, block.keys());
}

// One query head of one sequence.
struct HeadPlace {
  std::int64_t batch;
  std::int64_t head;
};

template <typename T>
void LoadBlock(const AttentionArgs& args, const HeadPlace& place, const QueryBlock& block,
               const BackwardBuffers& buffers) {
  const AttentionSizes sizes(args);
  const std::int64_t row = place.batch * sizes.sequence + block.first;
  const T* grad_out = args.grad_out.as<T>() + row * sizes.out_width + place.head * sizes.head_size;
  LoadRows(args.qkv.as<T>() + row * sizes.row_width + place.head * sizes.head_size, sizes.row_width, block.rows(),
           sizes.head_size, args.scale, buffers.queries);
  LoadRows(grad_out, sizes.out_width, block.rows(), sizes.head_size, 1.0F, buffers.grad_out);
  PackColumns(buffers.queries, sizes.head_size, block.rows(), sizes.head_size, block.rows(), buffers.query_panels);
  PackColumns(buffers.grad_out, sizes.head_size, block.rows(), sizes.head_size, block.rows(), buffers.grad_out_panels);
}

template <typename T>
void ScoreGradients(const AttentionArgs& args, const HeadPlace& place, const QueryBlock& block,
                    const BackwardBuffers& buffers) {
  const AttentionSizes sizes(args);
  TileProductArgs product{.a = buffers.queries,
                          .a_row_stride = sizes.head_size,
                          .b = buffers.keys_transposed + block.first_key * sizes.head_size,
                          .b_panel_stride = kPanel * sizes.head_size,
                          .c = buffers.weights,
                          .c_stride = sizes.padded_sequence,
                          .rows = block.rows(),
                          .depth = sizes.head_size,
                          .panels = CeilDiv(block.keys(), kPanel)};
  TileProduct(product);
  product.a = buffers.grad_out;
  product.b = buffers.values_transposed + block.first_key * sizes.head_size;
  product.c = buffers.grad_scores;
  TileProduct(product);
  const std::int64_t row = place.batch * sizes.sequence;
  const float* statistics = args.statistics.as<float>() + (place.batch * args.heads + place.head) * sizes.sequence;
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    const std::int64_t t = block.first + i;
    const T* out = args.out.as<T>() + (row + t) * sizes.out_width + place.head * sizes.head_size;
    const float* grad_out = buffers.grad_out + i * sizes.head_size;
    float delta = 0;
#pragma omp simd reduction(+ : delta)
    for (std::int64_t d = 0; d < sizes.head_size; ++d) {
      delta += static_cast<float>(out[d]) * grad_out[d];
    }
    ScoreGradientRow({.weights = buffers.weights + i * sizes.padded_sequence,
                      .grad_scores = buffers.grad_scores + i * sizes.padded_sequence,
                      .log_sum = statistics[t],
                      .delta = delta,
                      .slope = args.slopes.given() ? args.slopes.as<float>()[place.head] : 0.0F},
                     block, KeyRange(block, FirstKey(args, place.batch, t), t), t);
  }
}

void KeyAndValueGradients(const AttentionSizes& sizes, const QueryBlock& block, const BackwardBuffers& buffers) {
  // Queries carry the scale already, so grad_keys needs it no more.
  TileProductArgs product{.a = buffers.grad_scores,
                          .a_row_stride = 1,
                          .a_depth_stride = sizes.padded_sequence,
                          .b = buffers.query_panels,
                          .b_panel_stride = kPanel * block.rows(),
                          .c = buffers.grad_keys + block.first_key * sizes.padded_head,
                          .c_stride = sizes.padded_head,
                          .rows = block.keys(),
                          .depth = block.rows(),
                          .panels = sizes.padded_head / kPanel,
                          .accumulate = true};
  TileProduct(product);
  product.a = buffers.weights;
  product.b = buffers.grad_out_panels;
  product.c = buffers.grad_values + block.first_key * sizes.padded_head;
  TileProduct(product);
}

template <typename T>
void StoreRows(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, float factor,
               T* to, std::int64_t to_stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      to[row * to_stride + i] = Narrow<T>(factor * from[row * from_stride + i]);
    }
  }
}

template <typename T>
void QueryGradients(const AttentionArgs& args, const HeadPlace& place, const QueryBlock& block,
                    const BackwardBuffers& buffers) {
  const AttentionSizes sizes(args);
  TileProduct({.a = buffers.grad_scores,
               .a_row_stride = sizes.padded_sequence,
               .b = buffers.keys + block.first_key * kPanel,
               .b_panel_stride = kPanel * sizes.sequence,
               .c = buffers.grad_queries,
               .c_stride = sizes.padded_head,
               .rows = block.rows(),
               .depth = block.keys(),
               .panels = sizes.padded_head / kPanel});
  T* grad = args.grad_qkv.as<T>() + (place.batch * sizes.sequence + block.first) * sizes.row_width +
            place.head * sizes.head_size;
  StoreRows(buffers.grad_queries, sizes.padded_head, block.rows(), sizes.head_size, args.scale, grad, sizes.row_width);
}

// All query heads of one key head in one sequence.
template <typename T>
void BackwardGroup(const AttentionArgs& args, std::int64_t batch, std::int64_t kv_head, float* memory) {
  const AttentionSizes sizes(args);
  const BackwardBuffers buffers(sizes, memory);
  const std::int64_t first_row = batch * sizes.sequence * sizes.row_width;
  const std::int64_t key_column = (args.heads + kv_head) * sizes.head_size;
  const std::int64_t value_column = key_column + args.kv_heads * sizes.head_size;
  const T* keys = args.qkv.as<T>() + first_row + key_column;
  PackTransposed(keys, sizes.row_width, sizes.sequence, sizes.head_size, buffers.keys_transposed);
  PackColumns(keys, sizes.row_width, sizes.sequence, sizes.head_size, sizes.sequence, buffers.keys);
  PackTransposed(args.qkv.as<T>() + first_row + value_column, sizes.row_width, sizes.sequence, sizes.head_size,
                 buffers.values_transposed);
  std::fill_n(buffers.grad_keys, sizes.sequence * sizes.padded_head, 0.0F);
  std::fill_n(buffers.grad_values, sizes.sequence * sizes.padded_head, 0.0F);
  for (std::int64_t first = 0; first < sizes.sequence; first += kQueryBlock) {
    const QueryBlock block = MakeQueryBlock(args, batch, first);
    for (std::int64_t i = 0; i < sizes.group; ++i) {
      const HeadPlace place{batch, kv_head * sizes.group + i};
      LoadBlock<T>(args, place, block, buffers);
      ScoreGradients<T>(args, place, block, buffers);
      KeyAndValueGradients(sizes, block, buffers);
      QueryGradients<T>(args, place, block, buffers);
    }
  }
  T* grad = args.grad_qkv.as<T>() + first_row;
  StoreRows(buffers.grad_keys, sizes.padded_head, sizes.sequence, sizes.head_size, 1.0F, grad + key_column,
            sizes.row_width);
  StoreRows(buffers.grad_values, sizes.padded_head, sizes.sequence, sizes.head_size, 1.0F, grad + value_column,
            sizes.row_width);
}

}  // namespace

void CpuOps::DoAttentionBackward(const AttentionArgs& args) {
  const AttentionSizes sizes(args);
  const std::int64_t groups = args.batch * args.kv_heads;
  scratch_.Reserve(PartCount(threads_, groups, 1), BackwardBuffers(sizes, nullptr).floats());
  DispatchWorkingType(args.qkv.dtype, [&](auto type) {
    ParallelRanges(threads_, groups, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        BackwardGroup<decltype(type)>(args, i / args.kv_heads, i % args.kv_heads, scratch_.of(part));
      }
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
