#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/attention.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "device/cpu/attention_tiles-inl.h"
#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// Buffers of one thread.
struct ForwardBuffers {
  ForwardBuffers(const AttentionSizes& sizes, float* memory)
      : keys(memory),
        values(keys + sizes.padded_sequence * sizes.head_size),
        scores(values + sizes.sequence * sizes.padded_head),
        queries(scores + kQueryBlock * sizes.padded_sequence),
        out(queries + kQueryBlock * sizes.head_size) {}
  static std::int64_t Floats(const AttentionSizes& sizes) {
    return sizes.padded_sequence * sizes.head_size + sizes.sequence * sizes.padded_head +
           kQueryBlock * (sizes.padded_sequence + sizes.head_size + sizes.padded_head);
  }
  float* keys;    // transposed, in panels of keys
  float* values;  // in panels of columns
  float* scores;  // [kQueryBlock, padded_sequence]
  float* queries;
  float* out;  // [kQueryBlock, padded_head]
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

// Turns the scores of the query at position t into weights: exponentials within its range, 0 elsewhere.
RowSoftmax SoftmaxRow(float* scores, const QueryBlock& block, const KeyRange& range, std::int64_t t, float slope) {
  PrepareScores(scores, range, slope, block.first_key - t);
  const std::int64_t count = range.vector_end - range.vector_begin;
  const float maximum = MaximumOf(scores + range.vector_begin, count);
  const float sum = Exponentiate(scores + range.vector_begin, count, maximum);
  ClearOutside(scores, range, block.keys());
  return {sum, maximum + std::log(sum)};
}

// One block of queries of head `head` in sequence `batch`.
template <typename T>
void ForwardBlock(const AttentionArgs& args, std::int64_t batch, std::int64_t head, const QueryBlock& block,
                  const ForwardBuffers& buffers) {
  const AttentionSizes sizes(args);
  const std::int64_t row = batch * sizes.sequence + block.first;
  LoadRows(args.qkv.as<T>() + row * sizes.row_width + head * sizes.head_size, sizes.row_width, block.rows(),
           sizes.head_size, args.scale, buffers.queries);
  TileProduct({.a = buffers.queries,
               .a_row_stride = sizes.head_size,
               .b = buffers.keys + block.first_key * sizes.head_size,
               .b_panel_stride = kPanel * sizes.head_size,
               .c = buffers.scores,
               .c_stride = sizes.padded_sequence,
               .rows = block.rows(),
               .depth = sizes.head_size,
               .panels = CeilDiv(block.keys(), kPanel)});
  const float slope = args.slopes.given() ? args.slopes.as<float>()[head] : 0.0F;
  float* statistics = args.statistics.as<float>() + (batch * args.heads + head) * sizes.sequence;
  float reciprocals[kQueryBlock];
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    const std::int64_t t = block.first + i;
    const KeyRange range(block, FirstKey(args, batch, t), t);
    const RowSoftmax softmax = SoftmaxRow(buffers.scores + i * sizes.padded_sequence, block, range, t, slope);
    statistics[t] = softmax.log_sum;
    reciprocals[i] = 1.0F / softmax.sum;
  }
  TileProduct({.a = buffers.scores,
               .a_row_stride = sizes.padded_sequence,
               .b = buffers.values + block.first_key * kPanel,
               .b_panel_stride = kPanel * sizes.sequence,
               .c = buffers.out,
               .c_stride = sizes.padded_head,
               .rows = block.rows(),
               .depth = block.keys(),
               .panels = sizes.padded_head / kPanel});
  for (std::int64_t i = 0; i < block.rows(); ++i) {
    T* out = args.out.as<T>() + (row + i) * sizes.out_width + head * sizes.head_size;
    const float* from = buffers.out + i * sizes.padded_head;
#pragma omp simd
    for (std::int64_t d = 0; d < sizes.head_size; ++d) {
      out[d] = Narrow<T>(from[d] * reciprocals[i]);
    }
  }
}

// All query heads of one key head in one sequence.
template <typename T>
void ForwardGroup(const AttentionArgs& args, std::int64_t batch, std::int64_t kv_head, float* memory) {
  const AttentionSizes sizes(args);
  const ForwardBuffers buffers(sizes, memory);
  const T* rows = args.qkv.as<T>() + batch * sizes.sequence * sizes.row_width;
  const T* keys = rows + (args.heads + kv_head) * sizes.head_size;
  const T* values = keys + args.kv_heads * sizes.head_size;
  PackTransposed(keys, sizes.row_width, sizes.sequence, sizes.head_size, buffers.keys);
  PackColumns(values, sizes.row_width, sizes.sequence, sizes.head_size, sizes.sequence, buffers.values);
  for (std::int64_t first = 0; first < sizes.sequence; first += kQueryBlock) {
    const QueryBlock block = MakeQueryBlock(args, batch, first);
    for (std::int64_t i = 0; i < sizes.group; ++i) {
      ForwardBlock<T>(args, batch, kv_head * sizes.group + i, block, buffers);
    }
  }
}

}  // namespace

void CpuOps::DoAttentionForward(const AttentionArgs& args) {
  const AttentionSizes sizes(args);
  const std::int64_t groups = args.batch * args.kv_heads;
  scratch_.Reserve(PartCount(threads_, groups, 1), ForwardBuffers::Floats(sizes));
  DispatchWorkingType(args.qkv.dtype, [&](auto type) {
    ParallelRanges(threads_, groups, 1, [&](int part, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        ForwardGroup<decltype(type)>(args, i / args.kv_heads, i % args.kv_heads, scratch_.of(part));
      }
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
