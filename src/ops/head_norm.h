// RMS norm of the query and key heads of packed rows.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace trireme {

// Rows are packed as for AttentionArgs: [N, (H + 2*Hkv) * D]. A group is one query or key head or, with `together`, all
// query heads or all key heads: G = H + Hkv or 2 groups. out = x / sqrt(mean of squares over the group + epsilon) *
// (gain + gain_offset); values are copied. Gains: [D] each or, with `together`, [H * D] and [Hkv * D].
// With `together` the heads of a group may be cut over `parts` ranks; H and Hkv are then this rank's.
struct HeadNormArgs {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  bool together = false;
  std::int64_t parts = 1;
  float epsilon = 1e-6F;
  float gain_offset = 0;
  Tensor x;
  Tensor query_gain;
  Tensor key_gain;
  Tensor sums;  // fp32 [N, G]: squares of each group, of all parts
  Tensor out;
  // Backward only:
  Tensor grad_out;
  Tensor products;         // fp32 [N, G]: grad_out * gain * x of each group, of all parts
  Tensor grad_x;           // may be grad_out itself
  Tensor grad_query_gain;  // fp32, added to
  Tensor grad_key_gain;

  std::int64_t groups() const { return together ? 2 : heads + kv_heads; }
  std::int64_t width() const { return (heads + 2 * kv_heads) * head_size; }
  // Elements of a group here, and of all parts.
  std::int64_t group_width(std::int64_t group) const {
    return !together ? head_size : (group == 0 ? heads : kv_heads) * head_size;
  }
  std::int64_t group_begin(std::int64_t group) const {
    return together ? group * heads * head_size : group * head_size;
  }
  bool is_key(std::int64_t group) const { return together ? group == 1 : group >= heads; }
};

}  // namespace trireme
