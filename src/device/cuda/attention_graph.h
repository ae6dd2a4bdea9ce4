// The graphs of cuDNN's backend operations that attention over a block of queries and keys is, in the forms that are
// known to give right results.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <optional>

#include "device/attention_blocks.h"
#include "device/cuda/cudnn_plan.h"

namespace trireme {

// Ids of what a plan is bound to.
enum AttentionTensor : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kStatistics,
  kSlopes,
  kScale,
  kMinusInfinity,
  kOne,
  kGradOut,
  kGradQuery,
  kGradKey,
  kGradValue,
  kQuerySums,
  kWindow,
  kCap,
  kHidden,
  kDocumentStarts,
  kQueryLengths,
  kKeyLengths,
  kPackedOffsets,
  kOutOffsets,
  kStatisticOffsets,
  kKeyGradientOffsets,
  kRowSums,
  kAllKeyGradients,
  kAllValueGradients,
};

// What a plan is made for: queries and keys of one block, with elements between sequences and between rows.
struct AttentionShape {
  std::int64_t batch;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_size;
  std::int64_t query_sequence;
  std::int64_t query_row;
  std::int64_t key_sequence;
  std::int64_t key_row;
  std::int64_t out_sequence;
  std::int64_t out_row;
  bool causal;
  bool slopes;
  std::int64_t window;     // keys that a query of a causal block sees; 0: all up to its own
  bool capped;             // scores are cap * tanh(score / cap); not together with slopes
  bool documents;          // a query of a causal block sees no key before its document's start
  bool segments;           // batch entries are segments of `queries` rows at most: lengths and offsets are in memory
  cudnnDataType_t stored;  // of tensors in memory, and of operands
};

AttentionShape AttentionShapeOf(const AttentionArgs& args, const AttentionBlock& block);
// The shape of attention over whole sequences.
AttentionShape AttentionShapeOf(const AttentionArgs& args);
// The shape for sequences in `segments` segments each. Statistics and row sums (kRowSums) are then [rows, heads], fp32
// sums of the queries' gradients lie as the gradients do, and where heads share keys the gradients of keys and values
// are rows of those heads alone, with scratch for rows of all heads (kAllKeyGradients, kAllValueGradients).
AttentionShape SegmentShapeOf(const AttentionArgs& args, std::int64_t segments);

// None when this GPU has no engine for the shape. Deterministic plans take 2 * B * H * T * T bytes of workspace, others
// an fp32 sum of the queries' gradients, bound as kQuerySums.
std::optional<CudnnPlan> BuildAttentionForward(const AttentionShape& shape, cudnnHandle_t handle);
std::optional<CudnnPlan> BuildAttentionBackward(const AttentionShape& shape, bool deterministic, cudnnHandle_t handle);

}  // namespace trireme
