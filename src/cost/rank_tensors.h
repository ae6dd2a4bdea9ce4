// The table of what a rank allocates once, besides activations and scratch (whose places are planned in memory_plan.h):
// MemoryOfStage adds up its rows, the trainer allocates the tensors that they name. There is no second list.
#pragma once

#include <array>

#include "base/tensor_spec.h"
#include "cost/optimizer_plan.h"
#include "cost/shard_plan.h"
#include "cost/step_cost.h"
#include "topology/layout.h"

namespace trireme {

// What the memory of parameters and of their optimizer depends on.
struct StateChoices {
  int zero = 0;
  Offload offload = Offload::kNone;
  DType working = DType::kFloat32;  // type of weights
  DType moments = DType::kFloat32;
  const OptimizerPlan* optimizer = nullptr;  // nullptr: AdamW of every parameter
  // How gradients and gathered weights are sent where several ranks share them.
  WireFormat reduce = WireFormat::kExact;
  WireFormat gather = WireFormat::kExact;
};

// Tensors of one bucket.
struct BucketTensors {
  TensorSpec weights;   // whole; the owned shard where ZeRO shards parameters
  TensorSpec gradient;  // whole; the owned shard where ZeRO shards gradients
  OptimizerTensors optimizer;
};
BucketTensors TensorsOfBucket(const Bucket& bucket, const StateChoices& choices);

// Buckets of a module that are present at the same time lie in buffers of their own.
inline constexpr int kGatherClasses = 4;
inline std::size_t GatherClass(const Bucket& bucket) {
  return (bucket.frozen ? std::size_t{2} : 0) + (bucket.whole ? 1 : 0);
}
// Words of `count` numbers as they are sent; 0 where they are sent as they are.
std::int64_t WordsSent(WireFormat sent, std::int64_t count);
// Bytes of `count` numbers of `element` bytes as they are sent.
std::int64_t BytesSent(WireFormat sent, std::int64_t count, std::int64_t element);

// Buffers that all buckets share.
struct SharedTensors {
  // kGatherBuffers of each GatherClass: the module at work and the next one, where modules are made present for use.
  std::array<TensorSpec, kGatherClasses> gathered;
  TensorSpec tied_gathered;
  TensorSpec staging;  // gradients of a module, where ZeRO shards gradients
  TensorSpec tied_staging;
  TensorSpec reduced;
  TensorSpec narrow;   // words of a bucket's gradient or weights as they are sent, where that is not exact
  TensorSpec arrived;  // words of the data ranks' parts of a gradient, where they are sent as int8
  // kHostPieces of each: where the optimizer's state lies in host memory, the part of it that is on the device.
  OptimizerTensors piece;
  TensorSpec piece_weight;
};
inline constexpr int kGatherBuffers = 2;
inline constexpr int kHostPieces = 2;
SharedTensors TensorsOfBuckets(const ShardPlan& plan, const StateChoices& choices);

// Weights, gradients and optimizer bytes of a rank: the sum of the two tables above. The fields of other kinds are 0.
MemoryUse StateMemory(const ShardPlan& plan, const StateChoices& choices);

// What a step reads, hands over to other stages and tells other ranks: MemoryKind::kMessages.
struct StepTensors {
  explicit StepTensors(const StageDescription& stage);

  TensorSpec output;  // [n, C], as are the two gradients: what crosses the borders of stages
  TensorSpec gradient_a;
  TensorSpec gradient_b;
  TensorSpec tokens;  // of all micro batches of a step, as are the next four
  TensorSpec targets;
  TensorSpec loss_weights;
  TensorSpec document_starts;  // Ulysses: of whole sequences
  TensorSpec loss_sums;
  TensorSpec numbers;    // that all ranks add up
  TensorSpec squares;    // of the gradients, by range
  TensorSpec slopes;     // of ALiBi
  TensorSpec places;     // of this rank's tokens in a micro batch, where they are not all of them
  TensorSpec positions;  // where they begin anew with every document

  std::int64_t bytes() const;
};

}  // namespace trireme
