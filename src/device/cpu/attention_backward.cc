#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention_backward.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "device/cpu/attention_tiles-inl.h"
#include "device/cpu/cpu_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

template <typename E>
struct BackwardBuffers {
  BackwardBuffers(const AttentionSizes& sizes, BufferCutter& cut)
      : key_panels(cut.Take<E>(sizes.key_columns * sizes.head_depth)),
        value_panels(cut.Take<E>(sizes.key_columns * sizes.head_depth)),
        keys_by_depth(cut.Take<E>(sizes.head_columns * sizes.key_depth)),
        grad_keys(cut.Take<float>(sizes.key_rows * sizes.head_columns)),
        grad_values(cut.Take<float>(sizes.key_rows * sizes.head_columns)),
        weights(cut.Take<float>(sizes.query_block * sizes.key_columns)),
        grad_scores(cut.Take<float>(sizes.query_block * sizes.key_columns)),
        weight_elements(Elements(weights, sizes, cut)),
        grad_score_elements(Elements(grad_scores, sizes, cut)),
        queries(cut.Take<E>(sizes.query_block * sizes.head_size)),
        grad_out(cut.Take<E>(sizes.query_block * sizes.head_size)),
        query_panels(cut.Take<E>(sizes.head_columns * sizes.block_depth)),
        grad_out_panels(cut.Take<E>(sizes.head_columns * sizes.block_depth)),
        grad_queries(cut.Take<float>(sizes.query_block * sizes.head_columns)),
        staging(cut.Take<E>(sizes.staged * sizes.head_size)) {}

  E* key_panels;       // panels of keys, depth = head elements
  E* value_panels;     // likewise
  E* keys_by_depth;    // panels of head elements, depth = keys
  float* grad_keys;    // [key_rows, head_columns]
  float* grad_values;  // [key_rows, head_columns]
  float* weights;      // [query_block, key_columns]
  float* grad_scores;  // [query_block, key_columns]
  E* weight_elements;  // the two as left operands
  E* grad_score_elements;
  E* queries;           // [query_block, head_size]
  E* grad_out;          // [query_block, head_size]
  E* query_panels;      // panels of head elements, depth = queries of the block
  E* grad_out_panels;   // likewise
  float* grad_queries;  // [query_block, head_columns]
  E* staging;           // keys, then values, that lie in chunks

 private:
  static E* Elements(float* of, const AttentionSizes& sizes, BufferCutter& cut) {
    return std::is_same_v<E, float> ? reinterpret_cast<E*>(of) : cut.Take<E>(sizes.query_block * sizes.key_columns);
  }
};

// weights = exp(scores - log_sum) within the keys of a query, grad_scores = scale * weights * (grad_scores - delta); 0
// elsewhere.
struct GradientRow {
  float* weights;
  float* grad_scores;
  float log_sum;
  float delta;
  ScoreRule rule;
};

void ScoreGradientRow(const GradientRow& row, std::int64_t keys, const KeyRange& range, std::int64_t first_key,
                      std::int64_t position) {
  if (range.empty()) {
    std::fill_n(row.weights, keys, 0.0F);
    std::fill_n(row.grad_scores, keys, 0.0F);
    return;
  }
  PrepareScores(row.weights, range, row.rule, first_key, position);
  float* weights = row.weights;
  float* grad_scores = row.grad_scores;
  const float log_sum = row.log_sum;
  const float delta = row.delta;
  const float scale = row.rule.scale;
  if (row.rule.cap > 0) {
    // The slope of the cap at a capped score; masked scores are minus infinity and have no gradient anyway.
    const float lowest = -row.rule.cap;
    const float reciprocal = 1.0F / row.rule.cap;
#pragma omp simd
    for (std::int64_t i = range.vector_begin; i < range.vector_end; ++i) {
      const float score = weights[i];
      const float part = score * reciprocal;
      const float capped = score < lowest ? 0.0F : part;
      const float weight = VectorExp(score - log_sum);
      grad_scores[i] = scale * weight * (grad_scores[i] - delta) * (1.0F - capped * capped);
      weights[i] = weight;
    }
    ClearOutside(weights, range, keys);
    ClearOutside(grad_scores, range, keys);
    return;
  }
#pragma omp simd
  for (std::int64_t i = range.vector_begin; i < range.vector_end; ++i) {
    weights[i] = VectorExp(weights[i] - log_sum);
    grad_scores[i] = scale * weights[i] * (grad_scores[i] - delta);
  }
  ClearOutside(weights, range, keys);
  ClearOutside(grad_scores, range, keys);
}

// The gradient of a row with the weights that forward left in `kept`, which begins at the block's first key.
template <typename T>
void KeptGradientRow(const GradientRow& row, const T* kept, std::int64_t keys, const KeyRange& range) {
  float* weights = row.weights;
  float* grad_scores = row.grad_scores;
  const float delta = row.delta;
  const float scale = row.rule.scale;
#pragma omp simd
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    weights[i] = static_cast<float>(kept[i]);
    grad_scores[i] = scale * weights[i] * (grad_scores[i] - delta);
  }
  if (row.rule.cap > 0) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      // The score that became this weight; a weight of 0 has no gradient.
      const float capped = weights[i] > 0 ? (std::log(weights[i]) + row.log_sum) / row.rule.cap : 0.0F;
      grad_scores[i] *= 1.0F - capped * capped;
    }
  }
  ClearOutside(weights, range, keys);
  ClearOutside(grad_scores, range, keys);
}

template <typename T>
void StoreRows(const float* from, std::int64_t from_stride, const MatrixView<T>& shape, T* to) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
#pragma omp simd
    for (std::int64_t i = 0; i < shape.columns; ++i) {
      to[row * shape.stride + i] = Narrow<T>(from[row * from_stride + i]);
    }
  }
}

template <typename E, typename T>
float Dot(const E* a, const T* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  }
  return sum;
}

// One query head of one sequence.
template <typename T, typename Products>
class BackwardHead {
 public:
  using E = typename Products::Element;

  BackwardHead(const AttentionArgs& args, const AttentionSizes& sizes, const Products& products,
               const BackwardBuffers<E>& buffers, std::int64_t batch, std::int64_t head)
      : args_(args), sizes_(sizes), products_(products), buffers_(buffers), batch_(batch), head_(head) {}

  void Run(const QueryBlock& block) const {
    if (block.keys() == 0) {
      std::fill_n(buffers_.grad_queries, block.rows() * sizes_.head_columns, 0.0F);
      return StoreQueryGradients(block);
    }
    LoadBlock(block);
    ScoreGradients(block);
    KeyAndValueGradients(block);
    QueryGradients(block);
    StoreQueryGradients(block);
  }

 private:
  std::int64_t Row(const QueryBlock& block) const { return batch_ * sizes_.sequence + block.first; }

  void LoadBlock(const QueryBlock& block) const {
    const T* queries = args_.qkv.as<T>() + Row(block) * sizes_.row_width + head_ * sizes_.head_size;
    const T* grad_out = args_.grad_out.as<T>() + Row(block) * sizes_.out_width + head_ * sizes_.head_size;
    LoadRows<T, E>({queries, sizes_.row_width, block.rows(), sizes_.head_size}, buffers_.queries);
    LoadRows<T, E>({grad_out, sizes_.out_width, block.rows(), sizes_.head_size}, buffers_.grad_out);
    products_.PackRight(MatrixView<E>{buffers_.queries, sizes_.head_size, block.rows(), sizes_.head_size, true},
                        buffers_.query_panels);
    products_.PackRight(MatrixView<E>{buffers_.grad_out, sizes_.head_size, block.rows(), sizes_.head_size, true},
                        buffers_.grad_out_panels);
  }

  void ScoreGradients(const QueryBlock& block) const {
    const bool kept = args_.weights.given();
    if (!kept) {
      products_.Multiply({buffers_.queries, sizes_.head_size, block.rows(), sizes_.head_size},
                         {buffers_.key_panels, sizes_.head_depth, block.first_key, block.keys()},
                         {buffers_.weights, sizes_.key_columns});
    }
    products_.Multiply({buffers_.grad_out, sizes_.head_size, block.rows(), sizes_.head_size},
                       {buffers_.value_panels, sizes_.head_depth, block.first_key, block.keys()},
                       {buffers_.grad_scores, sizes_.key_columns});
    const std::int64_t keys = RoundUp(block.keys(), products_.unit());
    const float* statistics = args_.statistics.as<float>() + (batch_ * args_.heads + head_) * sizes_.sequence;
    const ScoreRule rule = RuleOf(args_, head_);
    for (std::int64_t i = 0; i < block.rows(); ++i) {
      const std::int64_t t = block.first + i;
      const T* out = args_.out.as<T>() + (Row(block) + i) * sizes_.out_width + head_ * sizes_.head_size;
      const std::int64_t offset = i * sizes_.key_columns;
      const GradientRow row{.weights = buffers_.weights + offset,
                            .grad_scores = buffers_.grad_scores + offset,
                            .log_sum = statistics[t],
                            .delta = Dot(buffers_.grad_out + i * sizes_.head_size, out, sizes_.head_size),
                            .rule = rule};
      const KeyRange range(args_, block, batch_, i);
      const WeightRow place{batch_, head_, block.position + i};
      DropRow(row.grad_scores, args_, block, range, place);
      if (kept) {
        const std::int64_t first = ((batch_ * args_.heads + head_) * sizes_.sequence + t) * sizes_.keys;
        KeptGradientRow(row, args_.weights.as<T>() + first + block.first_key, keys, range);
      } else {
        ScoreGradientRow(row, keys, range, block.first_key, block.position + i);
      }
      DropRow(row.weights, args_, block, range, place);
      StoreElements(row.weights, buffers_.weight_elements + offset, keys);
      StoreElements(row.grad_scores, buffers_.grad_score_elements + offset, keys);
    }
  }

  void KeyAndValueGradients(const QueryBlock& block) const {
    const std::int64_t offset = block.first_key * sizes_.head_columns;
    const std::int64_t depth = RoundUp(block.rows(), products_.unit());
    products_.Multiply({buffers_.grad_score_elements, sizes_.key_columns, block.rows(), block.keys(), true},
                       {buffers_.query_panels, depth, 0, sizes_.head_size},
                       {buffers_.grad_keys + offset, sizes_.head_columns, true});
    products_.Multiply({buffers_.weight_elements, sizes_.key_columns, block.rows(), block.keys(), true},
                       {buffers_.grad_out_panels, depth, 0, sizes_.head_size},
                       {buffers_.grad_values + offset, sizes_.head_columns, true});
  }

  void QueryGradients(const QueryBlock& block) const {
    const std::int64_t keys = RoundUp(block.keys(), products_.unit());
    products_.Multiply({buffers_.grad_score_elements, sizes_.key_columns, block.rows(), keys},
                       {buffers_.keys_by_depth, sizes_.key_depth, 0, sizes_.head_size, block.first_key},
                       {buffers_.grad_queries, sizes_.head_columns});
  }

  void StoreQueryGradients(const QueryBlock& block) const {
    StoreRows<T>(buffers_.grad_queries, sizes_.head_columns,
                 {nullptr, sizes_.row_width, block.rows(), sizes_.head_size},
                 args_.grad_qkv.as<T>() + Row(block) * sizes_.row_width + head_ * sizes_.head_size);
  }

  const AttentionArgs& args_;
  const AttentionSizes& sizes_;
  const Products& products_;
  const BackwardBuffers<E>& buffers_;
  std::int64_t batch_;
  std::int64_t head_;
};

// Memory of one thread in floats.
template <typename Products>
std::int64_t BackwardFloats(const AttentionSizes& sizes, const Products& products) {
  BufferCutter cut(nullptr);
  const BackwardBuffers<typename Products::Element> buffers(sizes, cut);
  const std::int64_t rows_left = products.ScratchFloats(sizes.query_block, std::max(sizes.key_depth, sizes.head_depth));
  return cut.floats() + std::max(rows_left, products.ScratchFloats(sizes.keys, sizes.block_depth));
}

// All query heads of one key head in one sequence.
template <typename T, typename Products>
void BackwardGroup(const AttentionArgs& args, Products products, std::int64_t batch, std::int64_t kv_head,
                   float* memory) {
  const AttentionSizes sizes(args, products);
  BufferCutter cut(memory);
  const BackwardBuffers<typename Products::Element> buffers(sizes, cut);
  products.set_scratch(memory + cut.floats());
  const KeyRuns runs(args, batch, kv_head);
  WithKeys<T>(args, runs, false, buffers.staging, [&](auto keys) {
    products.PackRight(keys, buffers.key_panels);
    keys.transposed = true;
    products.PackRight(keys, buffers.keys_by_depth);
  });
  WithKeys<T>(args, runs, true, buffers.staging,
              [&](const auto& values) { products.PackRight(values, buffers.value_panels); });
  std::fill_n(buffers.grad_keys, sizes.key_rows * sizes.head_columns, 0.0F);
  std::fill_n(buffers.grad_values, sizes.key_rows * sizes.head_columns, 0.0F);
  for (std::int64_t first = 0; first < sizes.sequence;) {
    const QueryBlock block = MakeQueryBlock(args, sizes, batch, first);
    first = block.last;
    for (std::int64_t i = 0; i < sizes.group; ++i) {
      BackwardHead<T, Products>(args, sizes, products, buffers, batch, kv_head * sizes.group + i).Run(block);
    }
  }
  T* grad = (args.kv.given() ? args.grad_kv : args.grad_qkv).as<T>();
  for (std::int64_t i = 0; i < runs.size(); ++i) {
    const KeyRun run = runs[i];
    const MatrixView<T> rows{nullptr, runs.stride(), run.count, sizes.head_size};
    const std::int64_t first = run.first * sizes.head_columns;
    StoreRows<T>(buffers.grad_keys + first, sizes.head_columns, rows, grad + run.offset);
    StoreRows<T>(buffers.grad_values + first, sizes.head_columns, rows, grad + run.offset + runs.value_offset());
  }
}

}  // namespace

void CpuOps::DoAttentionBackward(const AttentionArgs& args) {
  const HeadWorkers workers{threads_, scratch_, bf16_kernel_};
  WithAttentionProducts(args.qkv.dtype, bf16_kernel_, [&](auto type, const auto& products) {
    using T = decltype(type);
    const AttentionSizes sizes(args, products);
    ParallelHeads(workers, args.batch * args.kv_heads, BackwardFloats(sizes, products),
                  [&](std::int64_t i, float* memory) {
                    BackwardGroup<T>(args, products, i / args.kv_heads, i % args.kv_heads, memory);
                  });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
