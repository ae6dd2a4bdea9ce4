#include "cost/module_plan.h"

namespace trireme {
EmbeddingPlan::EmbeddingPlan(const LocalSizes& s, bool embedding_norm) {
  AreaPlanner keep(Area::kKept);
  AreaPlanner scratch(Area::kScratch);
  if (embedding_norm) {
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
  loss_statistics = scratch.Add(DType::kFloat32, {s.tensor, 3, chunk});
  losses = scratch.Add(DType::kFloat32, {s.tokens});
  grad_inside = scratch.Add(s.dtype, {s.tokens, s.hidden});
  if (s.frozen) {
    unused_gradients = scratch.Add(DType::kFloat32, {2, s.hidden});
  }
  kept_bytes = keep.peak();
  scratch_bytes = scratch.peak();
}

}  // namespace trireme
