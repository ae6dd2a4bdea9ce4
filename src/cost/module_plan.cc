#include "cost/module_plan.h"

namespace trireme {
namespace {

constexpr DType kFloat = DType::kFloat32;

}  // namespace

BlockPlan::BlockPlan(const LocalSizes& s) {
  AreaPlanner keep(Area::kKept);
  AreaPlanner scratch(Area::kScratch);
  PlanForward(s, keep, scratch);
  PlanBackward(s, keep, scratch);
  kept_bytes = keep.peak();
  scratch_bytes = scratch.peak();
}

void BlockPlan::PlanForward(const LocalSizes& s, AreaPlanner& keep, AreaPlanner& scratch) {
  input = keep.Add(s.dtype, {s.outside, s.hidden});
  // A block computed again whole keeps only its input: all else lives in scratch, in forward and again in backward.
  AreaPlanner& rest = s.recompute_block ? scratch : keep;
  norm1_statistics = rest.Add(kFloat, {2, s.outside});
  qkv = rest.Add(s.dtype, {s.tokens, s.qkv});
  middle = rest.Add(s.dtype, {s.outside, s.hidden});
  norm2_statistics = rest.Add(kFloat, {2, s.outside});
  ffn_in = rest.Add(s.dtype, {s.tokens, s.ffn_in});
  AreaPlanner& attention = s.recompute_attention ? scratch : rest;
  attention_out = attention.Add(s.dtype, {s.tokens, s.attention});
  attention_statistics = attention.Add(kFloat, {s.batch, s.heads, s.sequence});
  if (!s.recompute_norms) {
    normed1 = rest.Add(s.dtype, {s.outside, s.hidden});
    normed2 = rest.Add(s.dtype, {s.outside, s.hidden});
  }
  if (!s.recompute_activation) {
    ffn_active = rest.Add(s.dtype, {s.tokens, s.ffn});
  }
  // What only forward itself needs: its two branches follow each other and share these.
  const std::int64_t mark = scratch.Mark();
  if (s.sequence_parallel) {
    gathered = scratch.Add(s.dtype, {s.tokens, s.hidden});
    branch_reduced = scratch.Add(s.dtype, {s.outside, s.hidden});
  }
  branch = scratch.Add(s.dtype, {s.tokens, s.hidden});
  if (s.recompute_norms) {
    normed1 = normed2 = scratch.Add(s.dtype, {s.outside, s.hidden});
  }
  if (s.recompute_activation) {
    ffn_active = scratch.Add(s.dtype, {s.tokens, s.ffn});
  }
  scratch.Release(mark);
}

void BlockPlan::PlanBackward(const LocalSizes& s, AreaPlanner& keep, AreaPlanner& scratch) {
  const bool parts_apart = s.split_backward && !s.recompute_block;
  AreaPlanner& between = parts_apart ? keep : scratch;
  norm_gradients = between.Add(kFloat, {4, s.hidden});
  grad_middle = scratch.Add(s.dtype, {s.outside, s.hidden});
  // The gradient that enters a branch is the gradient at hand, unless dropout, a gather or a later weight part asks for
  // a tensor of its own.
  if (s.dropout || s.sequence_parallel || parts_apart) {
    grad_branch2 = between.Add(s.dtype, {s.tokens, s.hidden});
    grad_branch1 = parts_apart ? between.Add(s.dtype, {s.tokens, s.hidden}) : grad_branch2;
  }
  if (parts_apart) {
    grad_ffn_in = keep.Add(s.dtype, {s.tokens, s.ffn_in});
    grad_qkv = keep.Add(s.dtype, {s.tokens, s.qkv});
  }
  grad_gathered = scratch.Add(s.dtype, {s.tokens, s.hidden});
  if (s.sequence_parallel) {
    grad_normed = scratch.Add(s.dtype, {s.outside, s.hidden});
    weight_gathered = scratch.Add(s.dtype, {s.tokens, s.hidden});
  }
  if (s.recompute_norms) {
    renormed = scratch.Add(s.dtype, {s.outside, s.hidden});
  }
  // The feed-forward half, then the attention half over the same scratch.
  const std::int64_t half = scratch.Mark();
  if (!parts_apart) {
    grad_ffn_in = scratch.Add(s.dtype, {s.tokens, s.ffn_in});
  }
  if (s.gated) {
    grad_active = scratch.Add(s.dtype, {s.tokens, s.ffn});
  }
  if (s.recompute_activation) {
    reactivated = scratch.Add(s.dtype, {s.tokens, s.ffn});
  }
  scratch.Release(half);
  if (!parts_apart) {
    grad_qkv = scratch.Add(s.dtype, {s.tokens, s.qkv});
  }
  grad_attention_out = scratch.Add(s.dtype, {s.tokens, s.attention});
}

EmbeddingPlan::EmbeddingPlan(const LocalSizes& s, bool embedding_norm) {
  AreaPlanner keep(Area::kKept);
  AreaPlanner scratch(Area::kScratch);
  if (embedding_norm) {
    sum = keep.Add(s.dtype, {s.outside, s.hidden});
    norm_statistics = keep.Add(kFloat, {2, s.outside});
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
  statistics = scratch.Add(kFloat, {2, s.outside});
  normed = scratch.Add(s.dtype, {s.outside, s.hidden});
  if (s.sequence_parallel) {
    gathered = scratch.Add(s.dtype, {s.tokens, s.hidden});
    grad_normed = scratch.Add(s.dtype, {s.outside, s.hidden});
  }
  logits = scratch.Add(s.dtype, {chunk, s.vocabulary});
  loss_statistics = scratch.Add(kFloat, {3, chunk});
  if (s.tensor > 1) {
    loss_gathered = scratch.Add(kFloat, {s.tensor, 3, chunk});
  }
  losses = scratch.Add(kFloat, {s.tokens});
  grad_inside = scratch.Add(s.dtype, {s.tokens, s.hidden});
  kept_bytes = keep.peak();
  scratch_bytes = scratch.peak();
}

}  // namespace trireme
