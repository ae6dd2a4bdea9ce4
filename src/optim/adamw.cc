#include "optim/adamw.h"

#include <utility>

namespace trireme {

AdamW::AdamW(Arena& arena, const AdamWOptions& options, std::vector<OwnedShard> shards)
    : ops_(arena.device().ops()), options_(options), shards_(std::move(shards)) {
  const auto state = [&](std::int64_t count) {
    const Tensor tensor = arena.Allocate(MemoryKind::kOptimizer, DType::kFloat32, {count});
    ops_.Fill(tensor, 0);
    return tensor;
  };
  for (const OwnedShard& shard : shards_) {
    const std::int64_t count = shard.weight.count();
    masters_.push_back(shard.weight.dtype == DType::kFloat32 ? shard.weight : state(count));
    first_moments_.push_back(state(count));
    second_moments_.push_back(state(count));
    for (const DecayRange& range : shard.ranges) {
      const auto part = [&](const Tensor& tensor) { return tensor.Range(range.first, range.count); };
      ranges_.push_back({.master = part(masters_.back()),
                         .first_moment = part(first_moments_.back()),
                         .second_moment = part(second_moments_.back()),
                         .gradient = part(shard.gradient),
                         .weight = part(shard.weight),
                         .weight_decay = range.decays ? options.weight_decay : 0.0F});
    }
  }
}

void AdamW::Step(float learning_rate, float gradient_scale, std::int64_t step) {
  ops_.AdamW(ranges_, {.learning_rate = learning_rate,
                       .beta1 = options_.beta1,
                       .beta2 = options_.beta2,
                       .epsilon = options_.epsilon,
                       .step = step,
                       .gradient_scale = gradient_scale});
}

void AdamW::PublishMasters() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (masters_[i].data != shards_[i].weight.data) {
      ops_.Copy(shards_[i].weight, masters_[i]);
    }
  }
}

}  // namespace trireme
