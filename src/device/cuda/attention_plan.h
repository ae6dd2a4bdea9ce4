// What the parts of CudnnAttention share: a plan with its numbers, and where a plan's tensors begin.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/shape.h"
#include "device/cuda/attention.h"
#include "device/cuda/attention_graph.h"
#include "device/cuda/cudnn_plan.h"

namespace trireme {

// Numbers of a plan's scalars lie beside it: cuDNN reads them at every run.
struct CudnnAttention::Plan {
  CudnnPlan plan;
  bool causal = true;
  float scale = 1;
  float minus_infinity = -std::numeric_limits<float>::infinity();
  float one = 1;
  float window = 0;
  float cap = 0;
  float hidden = -1e30F;  // far below any score, and finite after a few sums

  // Adds what scores are made and masked with, the same in both passes.
  void BindScores(const AttentionArgs& args, const Pieces& pieces, std::vector<CudnnBinding>& bindings);
};

// Where the tensors of a block begin.
struct CudnnAttention::Pieces {
  Pieces(const AttentionArgs& args, const AttentionBlock& block);

  void* query;
  void* out;
  void* grad_out;
  void* grad_query;
  void* statistics;  // of the block's rows, dense
  void* document_starts;
  void* key;
  void* value;
  void* grad_key;
  void* grad_value;
  std::vector<CudnnBinding> others;
};

inline AttentionBlock WholeSequence(const AttentionArgs& args) {
  return {.query = 0, .queries = args.sequence, .key = 0, .keys = args.sequence, .causal = true};
}

// fp32, of all queries.
inline std::int64_t QuerySumBytes(const AttentionArgs& args) { return RoundUp(args.out.count() * 4, 256); }
inline std::int64_t StatisticBytes(const AttentionArgs& args) { return RoundUp(args.statistics.bytes(), 256); }

}  // namespace trireme
