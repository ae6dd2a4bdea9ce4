// Where the tensors of an embedding, a block and a head live. nn allocates by these plans and the planner adds them up:
// one description, two readers.
#pragma once

#include "cost/local_sizes.h"
#include "cost/memory_plan.h"

namespace trireme {

// The fp8 copy of an operand of a product; absent where products are not in fp8.
struct Float8Place {
  Place rows;         // as the operand lies, for the product that follows at once
  Place columns;      // the transpose, for the weight's gradient
  Place scale;        // [1] fp32
  bool late = false;  // columns are made by the weight part of backward, not together with the rows
};

// A transformer block. n tokens outside the tensor region, N inside.
//   x -> norm -> [gather] -> qkv -> (rotary) -> attention -> out -> [reduce] -> middle = x + drop(. + bias)
//     -> norm -> [gather] -> in -> activation -> out -> [reduce] -> y = middle + drop(. + bias)
struct BlockPlan {
  explicit BlockPlan(const LocalSizes& sizes);

  // From forward to backward. In scratch when backward makes them again.
  Place input;             // [n, C], always kept
  Place norm1_statistics;  // [2, n] fp32
  Place normed1;           // [n, C]
  Place qkv;               // [N, Q]
  Place attention_out;     // [N, H*D]
  Place attention_statistics;
  Place middle;  // [n, C]
  Place norm2_statistics;
  Place normed2;     // [n, C]
  Place ffn_in;      // [N, F] before the activation (2F when gated)
  Place ffn_active;  // [N, F] after it

  // From the input part of backward to its weight part: kept when the schedule splits them, scratch otherwise.
  Place grad_branch2;    // [N, C]; absent when the incoming gradient itself serves
  Place grad_ffn_in;     // [N, F or 2F]
  Place grad_branch1;    // [N, C]; absent when grad_middle itself serves
  Place grad_qkv;        // [N, Q]
  Place norm_gradients;  // [4, C] fp32: gain and bias of the two norms

  // Scratch of forward.
  Place gathered;        // [N, C] under sequence parallelism: a normed tensor of all ranks
  Place branch;          // [N, C] output of a branch before its reduction
  Place branch_reduced;  // [n, C] after it, under sequence parallelism
  // Scratch of backward.
  Place grad_middle;         // [n, C]
  Place grad_active;         // [N, F] when gated
  Place grad_gathered;       // [N, C] gradient of a gathered tensor before its reduction
  Place grad_normed;         // [n, C] after it, under sequence parallelism
  Place grad_attention_out;  // [N, H*D]
  Place weight_gathered;     // [N, C] a normed tensor of all ranks once more, for the weight part
  Place renormed;            // [n, C] a normed tensor made again for the weight part, over grad_gathered
  Place reactivated;         // [N, F] likewise; over ffn_in, unless gated

  // fp8: inputs of products, then their gradients; e4m3 and e5m2. `rows` of all share one place.
  Float8Place normed1_float8;
  Float8Place attention_float8;
  Float8Place normed2_float8;
  Float8Place active_float8;
  Float8Place grad_branch2_float8;
  Float8Place grad_ffn_in_float8;
  Float8Place grad_branch1_float8;
  Float8Place grad_qkv_float8;
  Float8Place weight_float8;  // rows or columns of the weight at work, in the same place

  std::int64_t kept_bytes = 0;
  std::int64_t scratch_bytes = 0;

 private:
  void PlanForward(const LocalSizes& sizes, AreaPlanner& keep, AreaPlanner& scratch);
  void PlanBackward(const LocalSizes& sizes, AreaPlanner& keep, AreaPlanner& scratch);
  void PlanFloat8Forward(const LocalSizes& sizes, AreaPlanner& rest, AreaPlanner& scratch);
  void PlanFloat8Backward(const LocalSizes& sizes, AreaPlanner& scratch);
};

// Token lookup, positions, optional norm, dropout.
struct EmbeddingPlan {
  EmbeddingPlan(const LocalSizes& sizes, bool embedding_norm);

  Place sum;              // [n, C] before the norm; absent without one
  Place norm_statistics;  // likewise
  Place lookup;           // scratch [N, C]: rows found here, before their reduction under sequence parallelism
  Place grad_gathered;    // scratch [N, C] under sequence parallelism
  std::int64_t kept_bytes = 0;
  std::int64_t scratch_bytes = 0;
};

// Final norm, logits and loss, chunk by chunk. In training the forward computes gradients at once, so that the logits
// of a chunk exist one time only; the input's place then holds the input's gradient.
struct HeadPlan {
  HeadPlan(const LocalSizes& sizes, std::int64_t head_chunk);

  Place input;            // kept [n, C]
  Place statistics;       // scratch [2, n]
  Place normed;           // scratch [n, C]
  Place gathered;         // scratch [N, C] under sequence parallelism
  Place logits;           // scratch [chunk, V]
  Place loss_statistics;  // scratch [tensor, 3, chunk] fp32
  Place losses;           // scratch [N] fp32
  Place grad_inside;      // scratch [N, C]
  Place grad_normed;      // scratch [n, C] under sequence parallelism
  std::int64_t chunk = 0;
  std::int64_t kept_bytes = 0;
  std::int64_t scratch_bytes = 0;
};

}  // namespace trireme
