#include "cost/module_cost.h"

#include "base/shape.h"

namespace trireme {
namespace {

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

}  // namespace

WorkCost& WorkCost::operator+=(const WorkCost& other) {
  flops += other.flops;
  tensor += other.tensor;
  context += other.context;
  bytes_touched += other.bytes_touched;
  return *this;
}

ModuleCost CostOfEmbedding(const LocalSizes& s, const ModelConfig& config) {
  ModuleCost cost;
  const Region region{s};
  region.Reduce(cost.forward);
  const std::int64_t passes = 2 + (config.position == PositionChoice::kLearned ? 2 : 0) +
                              (config.embedding_norm ? 3 : 0) + (s.dropout ? 2 : 0) + (config.scale_embedding ? 2 : 0);
  cost.forward.bytes_touched = passes * s.outside * s.hidden * s.element();
  cost.evaluation = cost.forward;
  if (s.frozen) {
    return cost;
  }
  region.Gather(cost.backward_input);
  cost.backward_input.bytes_touched = 2 * cost.forward.bytes_touched;
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
  cost.forward.flops.matmul = (s.frozen ? 2 : 3) * product;
  cost.forward.bytes_touched = 7 * outside + 3 * logits;
  region.Reduce(cost.forward);
  return cost;
}

}  // namespace trireme
