#include "optim/adamw.h"

#include <utility>

namespace trireme {

AdamW::AdamW(Arena& arena, const AdamWOptions& options, std::vector<OwnedShard> shards)
    : ops_(arena.device().ops()), options_(options), shards_(std::move(shards)) {
  const auto state = [&](DType dtype, std::int64_t count) {
    const Tensor tensor = arena.Allocate(MemoryKind::kOptimizer, dtype, {count});
    ops_.Fill(tensor, 0);
    return tensor;
  };
  for (const OwnedShard& shard : shards_) {
    const std::int64_t count = shard.weight.count();
    low_.push_back(shard.weight.dtype == DType::kFloat32 ? Tensor{} : state(DType::kUInt16, count));
    first_moments_.push_back(state(options.moments, count));
    second_moments_.push_back(state(options.moments, count));
    for (const DecayRange& range : shard.ranges) {
      const auto part = [&](const Tensor& tensor) {
        return tensor.given() ? tensor.Range(range.first, range.count) : Tensor{};
      };
      ranges_.push_back({.weight = part(shard.weight),
                         .low = part(low_.back()),
                         .first_moment = part(first_moments_.back()),
                         .second_moment = part(second_moments_.back()),
                         .gradient = part(shard.gradient),
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

void AdamW::JoinMasters() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (low_[i].given()) {
      ops_.Join(master(i), shards_[i].weight, low_[i]);
    }
  }
}

void AdamW::PublishMasters() {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (low_[i].given()) {
      ops_.Split(shards_[i].weight, low_[i], master(i));
    }
  }
}

}  // namespace trireme
