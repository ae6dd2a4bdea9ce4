#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "device/cpu/attention_tiles-inl.h"
#include "device/cpu/cpu_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

template <typename E>
struct ForwardBuffers {
  ForwardBuffers(const AttentionSizes& sizes, BufferCutter& cut)
      : keys(cut.Take<E>(sizes.key_columns * sizes.head_depth)),
        values(cut.Take<E>(sizes.head_columns * sizes.key_depth)),
        scores(cut.Take<float>(sizes.query_block * sizes.key_columns)),
        // Shares the memory of scores where elements are fp32.
        weights(std::is_same_v<E, float> ? reinterpret_cast<E*>(scores)
                                         : cut.Take<E>(sizes.query_block * sizes.key_columns)),
        queries(cut.Take<E>(sizes.query_block * sizes.head_size)),
        out(cut.Take<float>(sizes.query_block * sizes.head_columns)),
        staging(cut.Take<E>(sizes.staged * sizes.head_size)) {}
  E* keys;        // panels of keys, depth = head elements
  E* values;      // panels of head elements, depth = keys
  float* scores;  // [query_block, key_columns]
  E* weights;     // [query_block, key_columns]
  E* queries;     // [query_block, head_size]
  float* out;     // [query_block, head_columns]
  E* staging;     // keys, then values, that lie in chunks
};

// The loops below run over whole vectors; `count` is a multiple of kVectorFloats.
float MaximumOf(const float* values, std::int64_t count) {
  float maximum = values[0];
#pragma omp simd reduction(max : maximum)
  for (std::int64_t i = 0; i < count; ++i) {
    maximum = values[i] > maximum ? values[i] : maximum;
  }
  return maximum;
}

// scores[i] = exp(scores[i] - maximum); returns their sum.
float Exponentiate(float* scores, std::int64_t count, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = VectorExp(scores[i] - maximum);
    sum += scores[i];
  }
  return sum;
}

struct RowSoftmax {
  float sum;
  float log_sum;
};

// Turns the products of a query with `keys` keys into weights: exponentials within its range, 0 elsewhere.
RowSoftmax SoftmaxRow(float* scores, std::int64_t keys, const KeyRange& range, const ScoreRule& rule,
                      std::int64_t first_key, std::int64_t position) {
  if (range.empty()) {
    std::fill_n(scores, keys, 0.0F);
    return {1, -std::numeric_limits<float>::infinity()};
  }
  PrepareScores(scores, range, rule, first_key, position);
  const std::int64_t count = range.vector_end - range.vector_begin;
  const float maximum = MaximumOf(scores + range.vector_begin, count);
  const float sum = Exponentiate(scores + range.vector_begin, count, maximum);
  ClearOutside(scores, range, keys);
  return {sum, maximum + std::log(sum)};
}

// Most rows of any query block.
constexpr std::int64_t kMostRows = 128;

// One query head of one sequence.
template <typename T, typename Products>
class ForwardHead {
 public:
  using E = typename Products::Element;

  ForwardHead(const AttentionArgs& args, const AttentionSizes& sizes, const Products& products,
              const ForwardBuffers<E>& buffers, std::int64_t batch, std::int64_t head)
      : args_(args), sizes_(sizes), products_(products), buffers_(buffers), batch_(batch), head_(head) {}

  void Run(const QueryBlock& block) const {
    const std::int64_t row = batch_ * sizes_.sequence + block.first;
    const T* queries = args_.qkv.as<T>() + row * sizes_.row_width + head_ * sizes_.head_size;
    LoadRows<T, E>({queries, sizes_.row_width, block.rows(), sizes_.head_size}, buffers_.queries);
    products_.Multiply({buffers_.queries, sizes_.head_size, block.rows(), sizes_.head_size},
                       {buffers_.keys, sizes_.head_depth, block.first_key, block.keys()},
                       {buffers_.scores, sizes_.key_columns});
    const std::int64_t keys = RoundUp(block.keys(), products_.unit());
    float reciprocals[kMostRows];
    for (std::int64_t i = 0; i < block.rows(); ++i) {
      reciprocals[i] = WeightsOfRow(block, i, keys);
    }
    if (keys == 0) {
      std::fill_n(buffers_.out, block.rows() * sizes_.head_columns, 0.0F);
    } else {
      products_.Multiply({buffers_.weights, sizes_.key_columns, block.rows(), keys},
                         {buffers_.values, sizes_.key_depth, 0, sizes_.head_size, block.first_key},
                         {buffers_.out, sizes_.head_columns});
    }
    for (std::int64_t i = 0; i < block.rows(); ++i) {
      StoreRow(row + i, buffers_.out + i * sizes_.head_columns, reciprocals[i]);
    }
  }

 private:
  float WeightsOfRow(const QueryBlock& block, std::int64_t i, std::int64_t keys) const {
    const std::int64_t t = block.first + i;
    const KeyRange range(args_, block, batch_, i);
    const ScoreRule rule = RuleOf(args_, head_);
    float* scores = buffers_.scores + i * sizes_.key_columns;
    const RowSoftmax softmax = SoftmaxRow(scores, keys, range, rule, block.first_key, block.position + i);
    if (args_.weights.given()) {
      KeepWeights(t, block, range, scores, 1.0F / softmax.sum);
    }
    DropRow(scores, args_, block, range, {batch_, head_, block.position + i});
    StoreElements(scores, buffers_.weights + i * sizes_.key_columns, keys);
    args_.statistics.as<float>()[(batch_ * args_.heads + head_) * sizes_.sequence + t] = softmax.log_sum;
    return 1.0F / softmax.sum;
  }

  // Keeps the weights of query t: 0 outside its keys.
  void KeepWeights(std::int64_t t, const QueryBlock& block, const KeyRange& range, const float* from,
                   float reciprocal) const {
    T* row = args_.weights.as<T>() + ((batch_ * args_.heads + head_) * sizes_.sequence + t) * sizes_.keys;
    std::fill_n(row, sizes_.keys, Narrow<T>(0.0F));
    T* to = row + block.first_key;
#pragma omp simd
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      to[i] = Narrow<T>(from[i] * reciprocal);
    }
  }

  void StoreRow(std::int64_t row, const float* from, float reciprocal) const {
    T* out = args_.out.as<T>() + row * sizes_.out_width + head_ * sizes_.head_size;
#pragma omp simd
    for (std::int64_t d = 0; d < sizes_.head_size; ++d) {
      out[d] = Narrow<T>(from[d] * reciprocal);
    }
  }

  const AttentionArgs& args_;
  const AttentionSizes& sizes_;
  const Products& products_;
  const ForwardBuffers<E>& buffers_;
  std::int64_t batch_;
  std::int64_t head_;
};

// Memory of one thread in floats.
template <typename Products>
std::int64_t ForwardFloats(const AttentionSizes& sizes, const Products& products) {
  BufferCutter cut(nullptr);
  const ForwardBuffers<typename Products::Element> buffers(sizes, cut);
  return cut.floats() + products.ScratchFloats(sizes.query_block, std::max(sizes.key_depth, sizes.head_depth));
}

// All query heads of one key head in one sequence.
template <typename T, typename Products>
void ForwardGroup(const AttentionArgs& args, Products products, std::int64_t batch, std::int64_t kv_head,
                  float* memory) {
  const AttentionSizes sizes(args, products);
  BufferCutter cut(memory);
  const ForwardBuffers<typename Products::Element> buffers(sizes, cut);
  products.set_scratch(memory + cut.floats());
  const KeyRuns runs(args, batch, kv_head);
  WithKeys<T>(args, runs, false, buffers.staging, [&](const auto& keys) { products.PackRight(keys, buffers.keys); });
  WithKeys<T>(args, runs, true, buffers.staging, [&](auto values) {
    values.transposed = true;
    products.PackRight(values, buffers.values);
  });
  for (std::int64_t first = 0; first < sizes.sequence;) {
    const QueryBlock block = MakeQueryBlock(args, sizes, batch, first);
    first = block.last;
    for (std::int64_t i = 0; i < sizes.group; ++i) {
      ForwardHead<T, Products>(args, sizes, products, buffers, batch, kv_head * sizes.group + i).Run(block);
    }
  }
}

// a = log(exp(a) + exp(b)); returns the shares of both in the sum.
std::pair<float, float> MergeSums(float& a, float b) {
  const float most = std::max(a, b);
  if (std::isinf(most) && most < 0) {
    return {0.0F, 0.0F};
  }
  const float first = std::exp(a - most);
  const float second = std::exp(b - most);
  a = most + std::log(first + second);
  return {first / (first + second), second / (first + second)};
}

}  // namespace

void CpuOps::DoMergeAttention(const AttentionMerge& merge) {
  const std::int64_t width = merge.heads * merge.head_size;
  DispatchWorkingType(merge.part_out.dtype, [&](auto type) {
    const auto* parts = merge.part_out.as<decltype(type)>();
    ParallelRanges(threads_, merge.out.shape[0], RowGrain(width), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin * merge.heads; at < end * merge.heads; ++at) {
        const std::int64_t row = at / merge.heads;
        const std::int64_t head = at % merge.heads;
        const std::int64_t statistic =
            (row / merge.sequence * merge.heads + head) * merge.sequence + row % merge.sequence;
        const auto [kept, added] =
            MergeSums(merge.statistics.as<float>()[statistic], merge.part_statistics.as<float>()[statistic]);
        float* out = merge.out.as<float>() + row * width + head * merge.head_size;
        const auto* part = parts + row * width + head * merge.head_size;
        for (std::int64_t d = 0; d < merge.head_size; ++d) {
          out[d] = kept * out[d] + added * static_cast<float>(part[d]);
        }
      }
    });
  });
}

void CpuOps::DoAttentionForward(const AttentionArgs& args) {
  const HeadWorkers workers{threads_, scratch_, bf16_kernel_};
  WithAttentionProducts(args.qkv.dtype, bf16_kernel_, [&](auto type, const auto& products) {
    using T = decltype(type);
    const AttentionSizes sizes(args, products);
    assert(sizes.query_block <= kMostRows);
    ParallelHeads(workers, args.batch * args.kv_heads, ForwardFloats(sizes, products),
                  [&](std::int64_t i, float* memory) {
                    ForwardGroup<T>(args, products, i / args.kv_heads, i % args.kv_heads, memory);
                  });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
