// Where the tensors of an embedding and a head live: buffers of their programs (lowering/module_program.h).
#pragma once

#include "lowering/local_sizes.h"
#include "lowering/memory_plan.h"

namespace trireme {

struct EmbeddingPlan {
  EmbeddingPlan(const ModelConfig& model, const LocalSizes& sizes);

  Place sum;              // [n, C] before the norm; absent without one
  Place norm_statistics;  // likewise
  Place lookup;           // scratch [N, C]: rows found here, before their reduction under sequence parallelism
  Place grad_gathered;    // scratch [N, C] under sequence parallelism
  std::int64_t kept_bytes = 0;
  std::int64_t scratch_bytes = 0;
};

struct HeadPlan {
  HeadPlan(const LocalSizes& sizes, std::int64_t head_chunk);

  Place input;             // kept [n, C]
  Place statistics;        // scratch [2, n]
  Place normed;            // scratch [n, C]
  Place gathered;          // scratch [N, C] under sequence parallelism
  Place logits;            // scratch [chunk, V]
  Place loss_statistics;   // scratch [chunk, 3 * tensor] fp32: a part of 3 * rows after another
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
