#include "cost/module_cost.h"

#include "base/shape.h"

namespace trireme {
namespace {

// The causal pairs of attention, as device/ops.h counts them: forward 4 D a pair and head, backward 10 D.
std::int64_t AttentionForward(const LocalSizes& s) {
  return s.batch * s.heads * (s.sequence * (s.sequence + 1) / 2) * 4 * s.head_size;
}

// Collectives of a tensor region, by what they do to an [N, C] tensor.
struct Region {
  const LocalSizes& sizes;
  std::int64_t bytes() const { return sizes.tokens * sizes.hidden * sizes.element(); }
  void Gather(WorkCost& cost) const {
    if (sizes.sequence_parallel) {
      cost.tensor.Add(CollectiveKind::kAllGather, bytes());
    }
  }
  void Reduce(WorkCost& cost) const {
    if (sizes.tensor > 1) {
      cost.tensor.Add(sizes.sequence_parallel ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce, bytes());
    }
  }
};

struct BlockFlops {
  explicit BlockFlops(const LocalSizes& s)
      : qkv(2 * s.tokens * s.hidden * s.qkv),
        out(2 * s.tokens * s.attention * s.hidden),
        ffn_in(2 * s.tokens * s.hidden * s.ffn_in),
        ffn_out(2 * s.tokens * s.ffn * s.hidden),
        attention(AttentionForward(s)) {}
  std::int64_t qkv, out, ffn_in, ffn_out, attention;
  std::int64_t matmul() const { return qkv + out + ffn_in + ffn_out; }
};

// Second forward of a whole block: all but the last product, whose output nobody needs.
WorkCost SecondForward(const LocalSizes& s, const BlockFlops& flops) {
  WorkCost cost;
  cost.flops.recomputed = flops.qkv + flops.out + flops.ffn_in + flops.attention;
  const Region region{s};
  region.Gather(cost);
  region.Reduce(cost);
  region.Gather(cost);
  return cost;
}

}  // namespace

WorkCost& WorkCost::operator+=(const WorkCost& other) {
  flops += other.flops;
  tensor += other.tensor;
  bytes_touched += other.bytes_touched;
  return *this;
}

ModuleCost CostOfEmbedding(const LocalSizes& s, const ModelConfig& config) {
  ModuleCost cost;
  const Region region{s};
  region.Reduce(cost.forward);
  const std::int64_t passes =
      2 + (config.position == PositionChoice::kLearned ? 2 : 0) + (config.embedding_norm ? 3 : 0) + (s.dropout ? 2 : 0);
  cost.forward.bytes_touched = passes * s.outside * s.hidden * s.element();
  cost.evaluation = cost.forward;
  region.Gather(cost.backward_input);
  cost.backward_input.bytes_touched = 2 * cost.forward.bytes_touched;
  return cost;
}

ModuleCost CostOfBlock(const LocalSizes& s, const ModelConfig& config) {
  ModuleCost cost;
  const Region region{s};
  const BlockFlops flops(s);
  cost.forward.flops = {.matmul = flops.matmul(), .attention = flops.attention};
  for (int branch = 0; branch < 2; ++branch) {
    region.Gather(cost.forward);
    region.Reduce(cost.forward);
    region.Gather(cost.backward_input);
    region.Reduce(cost.backward_input);
    region.Gather(cost.backward_weight);
  }
  const std::int64_t outside = s.outside * s.hidden * s.element();
  const std::int64_t active = s.tokens * s.ffn * s.element();
  const std::int64_t rotated = config.position == PositionChoice::kRotary ? 2 * s.tokens * s.qkv * s.element() : 0;
  cost.forward.bytes_touched = (s.dropout ? 9 : 8) * outside + (s.gated ? 3 : 2) * active + rotated;
  cost.evaluation = cost.forward;

  cost.backward_input.flops = {.matmul = flops.matmul(), .attention = flops.attention / 2 * 5};
  cost.backward_weight.flops = {.matmul = flops.matmul()};
  cost.backward_input.bytes_touched = (s.dropout ? 14 : 10) * outside + (s.gated ? 5 : 3) * active + rotated;
  const std::int64_t biases = config.biases ? 2 * outside + active + s.tokens * s.qkv * s.element() : 0;
  cost.backward_weight.bytes_touched = biases;
  if (s.recompute_attention) {
    cost.backward_input.flops.recomputed += flops.attention;
  }
  if (s.recompute_norms) {
    cost.backward_weight.bytes_touched += 4 * outside;
  }
  if (s.recompute_activation) {
    cost.backward_weight.bytes_touched += (s.gated ? 3 : 2) * active;
  }
  if (s.recompute_block) {
    // Both parts run in the input part: between them nothing but scratch holds the second forward's tensors.
    cost.backward_input += SecondForward(s, flops);
    cost.backward_input.bytes_touched += cost.forward.bytes_touched;
    cost.backward_input += cost.backward_weight;
    cost.backward_weight = {};
  }
  return cost;
}

ModuleCost CostOfHead(const LocalSizes& s, std::int64_t chunk) {
  ModuleCost cost;
  const Region region{s};
  const std::int64_t product = 2 * s.tokens * s.hidden * s.vocabulary;
  const std::int64_t outside = s.outside * s.hidden * s.element();
  const std::int64_t logits = s.tokens * s.vocabulary * s.element();
  region.Gather(cost.evaluation);
  if (s.tensor > 1) {
    for (std::int64_t first = 0; first < s.tokens; first += chunk) {
      const std::int64_t rows = first + chunk > s.tokens ? s.tokens - first : chunk;
      cost.evaluation.tensor.Add(CollectiveKind::kAllGather, s.tensor * 3 * rows * 4);
    }
  }
  cost.evaluation.flops.matmul = product;
  cost.evaluation.bytes_touched = 2 * outside + logits;
  cost.forward = cost.evaluation;
  cost.forward.flops.matmul = 3 * product;
  cost.forward.bytes_touched = 7 * outside + 3 * logits;
  region.Reduce(cost.forward);
  return cost;
}

}  // namespace trireme
