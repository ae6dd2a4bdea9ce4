#include "device/attention_operands.h"

#include <cmath>

namespace trireme {

AttentionArgs MakeAttentionArgs(Workbench& bench, DType working, const AttentionExtents& extents) {
  const std::int64_t rows = extents.batch * extents.sequence;
  const Shape packed{rows, (extents.heads + 2 * extents.kv_heads) * extents.head_size};
  const Shape out{rows, extents.heads * extents.head_size};
  return {.batch = extents.batch,
          .sequence = extents.sequence,
          .heads = extents.heads,
          .kv_heads = extents.kv_heads,
          .head_size = extents.head_size,
          .scale = 1.0F / std::sqrt(static_cast<float>(extents.head_size)),
          .qkv = bench.Normal(working, packed, "qkv"),
          .out = bench.Output(working, out),
          .statistics = bench.Output(DType::kFloat32, {extents.batch, extents.heads, extents.sequence}),
          .grad_out = bench.Normal(working, out, "grad_out"),
          .grad_qkv = bench.Output(working, packed)};
}

}  // namespace trireme
