// Where the tensors of an embedding and a head live. nn allocates by these plans and the planner adds them up: one
// description, two readers. Those of a block: lowering/block_program.h.
#pragma once

#include "lowering/local_sizes.h"
#include "lowering/memory_plan.h"

namespace trireme {

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

  Place input;             // kept [n, C]
  Place statistics;        // scratch [2, n]
  Place normed;            // scratch [n, C]
  Place gathered;          // scratch [N, C] under sequence parallelism
  Place logits;            // scratch [chunk, V]
  Place loss_statistics;   // scratch [tensor, 3, chunk] fp32
  Place losses;            // scratch [N] fp32
  Place grad_inside;       // scratch [N, C]
  Place grad_normed;       // scratch [n, C] under sequence parallelism
  Place unused_gradients;  // scratch [2, C] fp32: what the norm's backward makes for a frozen gain and bias
  std::int64_t chunk = 0;
  std::int64_t kept_bytes = 0;
  std::int64_t scratch_bytes = 0;
};

// HeadChunk, or more tokens where scratch of `scratch_bytes`, as large as some block needs it, has room for their
// logits: every chunk but the first reads and writes the gradient of the whole table. Chunks are about equal. Not with
// tensor ranks, whose exchanges are counted by HeadChunk.
std::int64_t HeadChunkWithin(const LocalSizes& sizes, std::int64_t wanted, std::int64_t scratch_bytes);

}  // namespace trireme
