// Attention over random operands, for tests on any device.
#pragma once

#include <cstdint>

#include "device/workbench.h"

namespace trireme {

struct AttentionExtents {
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_size;
};

// Causal attention scaled by 1 / sqrt(head_size), forward and backward; the caller adds windows, documents and the
// like. Equal extents have equal operands.
AttentionArgs MakeAttentionArgs(Workbench& bench, DType working, const AttentionExtents& extents);

}  // namespace trireme
