#include "cost/module_plan.h"

#include <algorithm>
#include <initializer_list>

namespace trireme {
namespace {

constexpr DType kFloat = DType::kFloat32;
constexpr DType kE4M3 = DType::kFloat8E4M3;
constexpr DType kE5M2 = DType::kFloat8E5M2;

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
  // In fp8 the weight part reads the transposed copy alone, unless it must gather its tokens again.
  const bool keep_norms = !s.recompute_norms && (!s.float8 || s.sequence_parallel);
  const bool keep_active = !s.recompute_activation && !s.float8;
  if (keep_norms) {
    normed1 = rest.Add(s.dtype, {s.outside, s.hidden});
    normed2 = rest.Add(s.dtype, {s.outside, s.hidden});
  }
  if (keep_active) {
    ffn_active = rest.Add(s.dtype, {s.tokens, s.ffn});
  }
  if (s.float8) {
    PlanFloat8Forward(s, rest, scratch);
  }
  // What only forward itself needs: its two branches follow each other and share these.
  const std::int64_t mark = scratch.Mark();
  if (s.sequence_parallel) {
    gathered = scratch.Add(s.dtype, {s.tokens, s.hidden});
    branch_reduced = scratch.Add(s.dtype, {s.outside, s.hidden});
  }
  branch = scratch.Add(s.dtype, {s.tokens, s.hidden});
  if (!keep_norms) {
    normed1 = normed2 = scratch.Add(s.dtype, {s.outside, s.hidden});
  }
  if (!keep_active) {
    ffn_active = scratch.Add(s.dtype, {s.tokens, s.ffn});
  }
  scratch.Release(mark);
}

void BlockPlan::PlanFloat8Forward(const LocalSizes& s, AreaPlanner& rest, AreaPlanner& scratch) {
  const std::int64_t widest = std::max({s.hidden, s.qkv, s.attention, s.ffn_in, s.ffn});
  const std::int64_t largest_weight = s.hidden * std::max({s.qkv, s.attention, s.ffn_in, s.ffn});
  weight_float8.rows = weight_float8.columns = scratch.Add(kE4M3, {largest_weight});
  weight_float8.scale = scratch.Add(kFloat, {1});
  const Place rows = scratch.Add(kE4M3, {s.tokens, widest});
  const auto operand = [&](Float8Place& place, std::int64_t width, bool late) {
    place = {.rows = rows, .scale = rest.Add(kFloat, {1}), .late = late};
    place.rows.shape = {s.tokens, width};
    if (!late) {
      place.columns = rest.Add(kE4M3, {width, s.tokens});
    }
  };
  const bool norms_late = s.recompute_norms || s.sequence_parallel;
  operand(normed1_float8, s.hidden, norms_late);
  operand(normed2_float8, s.hidden, norms_late);
  operand(attention_float8, s.attention, s.recompute_norms);
  operand(active_float8, s.ffn, s.recompute_activation);
  for (Float8Place* place : {&grad_branch1_float8, &grad_branch2_float8, &grad_ffn_in_float8, &grad_qkv_float8}) {
    place->rows = rows;
    place->rows.dtype = kE5M2;
  }
}

// Two gradients and one late input are at work in a half; the halves share the places.
void BlockPlan::PlanFloat8Backward(const LocalSizes& s, AreaPlanner& scratch) {
  const Place narrow = scratch.Add(kE5M2, {s.hidden, s.tokens});
  const Place wide = scratch.Add(kE5M2, {std::max(s.ffn_in, s.qkv), s.tokens});
  const auto gradient = [&](Float8Place& place, const Place& columns, std::int64_t width) {
    place.rows.shape = {s.tokens, width};
    place.columns = columns;
    place.columns.shape = {width, s.tokens};
    place.scale = scratch.Add(kFloat, {1});
    place.late = s.split_backward && !s.recompute_block;
  };
  gradient(grad_branch1_float8, narrow, s.hidden);
  gradient(grad_branch2_float8, narrow, s.hidden);
  gradient(grad_ffn_in_float8, wide, s.ffn_in);
  gradient(grad_qkv_float8, wide, s.qkv);
  std::int64_t late_width = 0;
  const std::initializer_list<Float8Place*> inputs = {&normed1_float8, &attention_float8, &normed2_float8,
                                                      &active_float8};
  for (const Float8Place* place : inputs) {
    late_width = std::max(late_width, place->late ? place->rows.shape[1] : 0);
  }
  const Place late = scratch.Add(kE4M3, {late_width, s.tokens});
  for (Float8Place* place : inputs) {
    if (place->late) {
      place->columns = late;
      place->columns.shape = {place->rows.shape[1], s.tokens};
    }
  }
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
  if (s.float8) {
    PlanFloat8Backward(s, scratch);
  }
  if (s.recompute_norms) {
    renormed = grad_gathered;
    renormed.shape = {s.outside, s.hidden};
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
    reactivated = s.gated ? scratch.Add(s.dtype, {s.tokens, s.ffn}) : ffn_in;
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
  loss_statistics = scratch.Add(kFloat, {s.tensor, 3, chunk});
  losses = scratch.Add(kFloat, {s.tokens});
  grad_inside = scratch.Add(s.dtype, {s.tokens, s.hidden});
  kept_bytes = keep.peak();
  scratch_bytes = scratch.peak();
}

}  // namespace trireme
