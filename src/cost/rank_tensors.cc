#include "cost/rank_tensors.h"

#include <algorithm>

namespace trireme {
namespace {

OptimizerCounts CountsOf(const Bucket& bucket, const StateChoices& choices) {
  if (bucket.frozen) {
    return {};
  }
  const std::int64_t owned = OwnedCount(bucket, choices.zero);
  const auto moments = [&](bool second) {
    return choices.optimizer == nullptr ? owned : choices.optimizer->Moments(bucket, second, choices.zero, {}).count;
  };
  return {.parameters = owned, .first_moments = moments(false), .second_moments = moments(true)};
}

}  // namespace

BucketTensors TensorsOfBucket(const Bucket& bucket, const StateChoices& choices) {
  const ZeroPolicy shards = ZeroShards(choices.zero);
  const bool host_weights = choices.offload == Offload::kFull;
  const bool host_state = choices.offload != Offload::kNone;
  const std::int64_t gradients = shards.gradients ? bucket.shard : bucket.count;
  return {.weights = {host_weights ? MemoryKind::kHost : MemoryKind::kWeights, choices.working,
                      shards.parameters ? bucket.shard : bucket.count},
          .gradient = {MemoryKind::kGradients, DType::kFloat32, bucket.frozen ? 0 : gradients},
          .optimizer = {host_state ? MemoryKind::kHost : MemoryKind::kOptimizer, CountsOf(bucket, choices),
                        choices.working, choices.moments}};
}

SharedTensors TensorsOfBuckets(const ShardPlan& plan, const StateChoices& choices) {
  const ZeroPolicy shards = ZeroShards(choices.zero);
  const std::int64_t largest = plan.LargestBucket(false, false);
  const std::int64_t tied = plan.LargestBucket(true, false);
  std::int64_t largest_shard = 0;
  bool has_first = false;
  bool has_second = false;
  for (const Bucket& bucket : plan.buckets) {
    largest_shard = bucket.frozen ? largest_shard : std::max(largest_shard, bucket.shard);
    const OptimizerCounts counts = CountsOf(bucket, choices);
    has_first = has_first || counts.first_moments > 0;
    has_second = has_second || counts.second_moments > 0;
  }
  const bool gathers = shards.parameters || choices.offload == Offload::kFull;
  const auto weights = [&](std::int64_t count) {
    return TensorSpec{MemoryKind::kWeights, choices.working, gathers ? count : 0};
  };
  const auto gradients = [&](std::int64_t count) {
    return TensorSpec{MemoryKind::kGradients, DType::kFloat32, shards.gradients ? count : 0};
  };
  const std::int64_t piece = choices.offload == Offload::kNone ? 0 : HostPiece(plan, choices.zero);
  return {
      .gathered = weights(largest),
      .frozen_gathered = weights(plan.LargestBucket(false, true)),
      .tied_gathered = weights(std::max(tied, plan.LargestBucket(true, true))),
      .staging = gradients(largest),
      .tied_staging = gradients(tied),
      .reduced = gradients(choices.reduce_bf16 ? 0 : largest_shard),
      .narrow = {MemoryKind::kMessages, DType::kBFloat16, choices.reduce_bf16 ? std::max(largest, tied) : 0},
      .piece = {MemoryKind::kOptimizer,
                {.parameters = piece, .first_moments = has_first ? piece : 0, .second_moments = has_second ? piece : 0},
                choices.working,
                choices.moments},
      .piece_weight = {MemoryKind::kOptimizer, choices.working, choices.offload == Offload::kFull ? piece : 0}};
}

MemoryUse StateMemory(const ShardPlan& plan, const StateChoices& choices) {
  MemoryUse use;
  const auto add = [&use](const TensorSpec& tensor, int times = 1) { use[tensor.kind] += times * tensor.bytes(); };
  const auto add_state = [&](const OptimizerTensors& state, int times) {
    add(state.low, times);
    add(state.first_moment, times);
    add(state.second_moment, times);
  };
  for (const Bucket& bucket : plan.buckets) {
    const BucketTensors tensors = TensorsOfBucket(bucket, choices);
    add(tensors.weights);
    add(tensors.gradient);
    add_state(tensors.optimizer, 1);
  }
  const SharedTensors shared = TensorsOfBuckets(plan, choices);
  add(shared.gathered, kGatherBuffers);
  add(shared.frozen_gathered, kGatherBuffers);
  add(shared.tied_gathered);
  add(shared.staging);
  add(shared.tied_staging);
  add(shared.reduced);
  add(shared.narrow);
  add_state(shared.piece, kHostPieces);
  add(shared.piece_weight, kHostPieces);
  return use;
}

StepTensors::StepTensors(const StageDescription& stage) {
  const LocalSizes& sizes = stage.sizes;
  const auto messages = [](DType dtype, std::int64_t count) { return TensorSpec{MemoryKind::kMessages, dtype, count}; };
  const std::int64_t boundary = sizes.outside * sizes.hidden;
  const std::int64_t batch = stage.most_micro_batches * sizes.tokens;
  // The head's output is the loss.
  const bool has_output = !stage.HoldsHead() || stage.layout.chunks > 1;
  output = messages(sizes.dtype, has_output ? boundary : 0);
  gradient_a = messages(sizes.dtype, boundary);
  gradient_b = messages(sizes.dtype, boundary);
  tokens = messages(DType::kInt32, batch);
  targets = messages(DType::kInt32, batch);
  loss_weights = messages(DType::kFloat32, batch);
  document_starts = messages(DType::kInt32, stage.document_masks ? (sizes.ulysses ? sizes.context : 1) * batch : 0);
  loss_sums = messages(DType::kFloat32, std::int64_t{2} * stage.most_micro_batches);
  numbers = messages(DType::kFloat32, kStepNumbers);
  squares = messages(DType::kFloat32, 2 * static_cast<std::int64_t>(stage.shards.buckets.size()));
  slopes = messages(DType::kFloat32, stage.model.position == PositionChoice::kAlibi ? sizes.heads : 0);
  places = messages(DType::kInt32, sizes.context > 1 ? sizes.tokens : 0);
}

std::int64_t StepTensors::bytes() const {
  std::int64_t sum = 0;
  for (const TensorSpec* tensor : {&output, &gradient_a, &gradient_b, &tokens, &targets, &loss_weights,
                                   &document_starts, &loss_sums, &numbers, &squares, &slopes, &places}) {
    sum += tensor->bytes();
  }
  return sum;
}

}  // namespace trireme
