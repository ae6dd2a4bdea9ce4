#include "cost/rank_tensors.h"

#include <algorithm>

#include "base/int8_block.h"

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
  const ZeroPolicy shards = ShardsOf(bucket, choices.zero);
  const bool host_weights = choices.offload == Offload::kFull;
  const bool host_state = choices.offload != Offload::kNone;
  const std::int64_t gradients = shards.gradients ? bucket.shard : bucket.count;
  return {.weights = {host_weights ? MemoryKind::kHost : MemoryKind::kWeights, choices.working,
                      shards.parameters ? bucket.shard : bucket.count},
          .gradient = {MemoryKind::kGradients, DType::kFloat32, bucket.frozen ? 0 : gradients},
          .optimizer = {host_state ? MemoryKind::kHost : MemoryKind::kOptimizer, CountsOf(bucket, choices),
                        choices.working, choices.moments}};
}

std::int64_t WordsSent(WireFormat sent, std::int64_t count) {
  switch (sent) {
    case WireFormat::kExact:
      return 0;
    case WireFormat::kBFloat16:
      return count / 2;
    case WireFormat::kInt8:
      return PackedWords(count);
  }
  return 0;
}

std::int64_t BytesSent(WireFormat sent, std::int64_t count, std::int64_t element) {
  return sent == WireFormat::kExact ? count * element : WordsSent(sent, count) * SizeOf(DType::kInt32);
}

SharedTensors TensorsOfBuckets(const ShardPlan& plan, const StateChoices& choices) {
  std::array<std::int64_t, kGatherClasses> gathered{};
  std::int64_t tied_gathered = 0;
  std::int64_t staging = 0;
  std::int64_t tied_staging = 0;
  std::int64_t staged_shard = 0;
  std::int64_t trained = 0;
  std::int64_t sharded = 0;
  bool has_first = false;
  bool has_second = false;
  const auto grow = [](std::int64_t& largest, std::int64_t count) { largest = std::max(largest, count); };
  for (const Bucket& bucket : plan.buckets) {
    const ZeroPolicy shards = ShardsOf(bucket, choices.zero);
    if (shards.parameters || choices.offload == Offload::kFull) {
      grow(bucket.tied ? tied_gathered : gathered[GatherClass(bucket)], bucket.count);
    }
    grow(sharded, shards.parameters ? bucket.count : 0);
    if (bucket.frozen) {
      continue;
    }
    grow(trained, bucket.count);
    if (shards.gradients) {
      grow(bucket.tied ? tied_staging : staging, bucket.count);
      grow(staged_shard, bucket.shard);
    }
    const OptimizerCounts counts = CountsOf(bucket, choices);
    has_first = has_first || counts.first_moments > 0;
    has_second = has_second || counts.second_moments > 0;
  }
  const auto weights = [&](std::int64_t count) { return TensorSpec{MemoryKind::kWeights, choices.working, count}; };
  const auto gradients = [](std::int64_t count) { return TensorSpec{MemoryKind::kGradients, DType::kFloat32, count}; };
  const auto words = [](std::int64_t count) { return TensorSpec{MemoryKind::kMessages, DType::kInt32, count}; };
  const std::int64_t piece = choices.offload == Offload::kNone ? 0 : HostPiece(plan, choices.zero);
  SharedTensors tensors{
      .gathered = {},
      .tied_gathered = weights(tied_gathered),
      .staging = gradients(staging),
      .tied_staging = gradients(tied_staging),
      .reduced = gradients(choices.reduce == WireFormat::kExact ? staged_shard : 0),
      .narrow = words(std::max(WordsSent(choices.reduce, trained), WordsSent(choices.gather, sharded))),
      .arrived = words(choices.reduce == WireFormat::kInt8 ? WordsSent(WireFormat::kInt8, trained) : 0),
      .piece = {MemoryKind::kOptimizer,
                {.parameters = piece, .first_moments = has_first ? piece : 0, .second_moments = has_second ? piece : 0},
                choices.working,
                choices.moments},
      .piece_weight = {MemoryKind::kOptimizer, choices.working, choices.offload == Offload::kFull ? piece : 0}};
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    tensors.gathered[i] = weights(gathered[i]);
  }
  return tensors;
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
  for (const TensorSpec& gathered : shared.gathered) {
    add(gathered, kGatherBuffers);
  }
  add(shared.tied_gathered);
  add(shared.staging);
  add(shared.tied_staging);
  add(shared.reduced);
  add(shared.narrow);
  add(shared.arrived);
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
  document_starts = messages(DType::kInt32, stage.document_masks ? sizes.head_ranks * batch : 0);
  loss_sums = messages(DType::kFloat32, std::int64_t{2} * stage.most_micro_batches);
  numbers = messages(DType::kFloat32, kStepNumbers);
  squares = messages(DType::kFloat32, 2 * static_cast<std::int64_t>(stage.shards.buckets.size()));
  slopes = messages(DType::kFloat32, stage.model.position == PositionChoice::kAlibi ? sizes.heads : 0);
  places = messages(DType::kInt32, sizes.context > 1 ? sizes.tokens : 0);
  positions = messages(DType::kInt32, stage.document_positions ? batch : 0);
}

std::int64_t StepTensors::bytes() const {
  std::int64_t sum = 0;
  for (const TensorSpec* tensor : {&output, &gradient_a, &gradient_b, &tokens, &targets, &loss_weights,
                                   &document_starts, &loss_sums, &numbers, &squares, &slopes, &places, &positions}) {
    sum += tensor->bytes();
  }
  return sum;
}

}  // namespace trireme
