#include "lowering/module_plan.h"

#include <algorithm>

namespace trireme {
EmbeddingPlan::EmbeddingPlan(const ModelConfig& model, const LocalSizes& s) {
  AreaPlanner keep(Area::kKept);
  AreaPlanner scratch(Area::kScratch);
  if (model.embedding_norm) {
    sum = keep.Add(s.dtype, {s.outside, s.hidden});
    norm_statistics = keep.Add(DType::kFloat32, {2, s.outside});
  }
  if (s.sequence_parallel) {
    lookup = scratch.Add(s.dtype, {s.tokens, s.hidden});
    scratch.Release(0);
    grad_gathered = scratch.Add(s.dtype, {s.tokens, s.hidden});
  }
  kept_bytes = keep.peak();
  scratch_bytes = scratch.peak();
}

HeadPlan::HeadPlan(const LocalSizes& s, std::int64_t head_chunk) : chunk(head_chunk) {
  AreaPlanner keep(Area::kKept);
  AreaPlanner scratch(Area::kScratch);
  input = keep.Add(s.dtype, {s.outside, s.hidden});
  statistics = scratch.Add(DType::kFloat32, {2, s.outside});
  normed = scratch.Add(s.dtype, {s.outside, s.hidden});
  if (s.sequence_parallel) {
    gathered = scratch.Add(s.dtype, {s.tokens, s.hidden});
    grad_normed = scratch.Add(s.dtype, {s.outside, s.hidden});
  }
  logits = scratch.Add(s.dtype, {chunk, s.vocabulary});
  loss_statistics = scratch.Add(DType::kFloat32, {chunk, 3 * s.tensor});
  losses = scratch.Add(DType::kFloat32, {s.tokens});
  grad_inside = scratch.Add(s.dtype, {s.tokens, s.hidden});
  if (s.frozen) {
    unused_gradients = scratch.Add(DType::kFloat32, {2, s.hidden});
  }
  kept_bytes = keep.peak();
  scratch_bytes = scratch.peak();
}

std::int64_t HeadChunkWithin(const LocalSizes& sizes, std::int64_t wanted, std::int64_t scratch_bytes) {
  constexpr std::int64_t kUnit = 128;
  std::int64_t rows = HeadChunk(sizes, wanted);
  if (wanted > 0 || sizes.tensor > 1 || rows == sizes.tokens) {
    return rows;
  }
  while (rows < sizes.tokens && HeadPlan(sizes, rows + kUnit).scratch_bytes <= scratch_bytes) {
    rows += kUnit;
  }
  return std::min(sizes.tokens, RoundUp(CeilDiv(sizes.tokens, CeilDiv(sizes.tokens, rows)), kUnit));
}

}  // namespace trireme
