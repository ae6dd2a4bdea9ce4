// Which parameters a rank holds, in which buckets, and which part of each bucket it owns. A bucket is the flat memory
// of one module's parameters (a tied token table has one of its own); the data axis cuts it in equal shards. Weights,
// gradients, optimizer state and checkpoints all speak of buckets and shards. Frozen parameters of a module have a
// bucket of their own, before that of the trained ones: it has weights, but no gradients and no optimizer state. So do
// parameters that ZeRO 3 keeps whole (layout.whole_below), before those that it shards.
//
// Invariants:
//  1. the layout of a bucket is equal on all tensor and data ranks that hold the module;
//  2. parameters that every tensor rank holds whole come first, [0, replicated), then the cut ones;
//  3. count is a multiple of data * kBucketUnit; elements in no entry are padding and stay zero.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameter_table.h"
#include "model/stage_partition.h"
#include "topology/layout.h"

namespace trireme {

// Elements to which entries and shards are aligned.
inline constexpr std::int64_t kBucketUnit = 64;

struct BucketEntry {
  int row = 0;              // of the ParameterTable
  std::int64_t offset = 0;  // in elements, a multiple of kBucketUnit
  std::int64_t count = 0;   // local elements, vocabulary padding included
  Shape shape;              // local
};

struct Bucket {
  std::int64_t module = 0;  // the first module that uses it on this rank
  bool tied = false;        // the token table of a tied model
  bool frozen = false;      // of parameters that are not trained
  bool whole = false;       // of parameters that ZeRO 3 keeps whole on every rank
  std::vector<BucketEntry> entries;
  std::int64_t replicated = 0;  // elements before the first cut parameter
  std::int64_t count = 0;
  std::int64_t shard = 0;  // count / data ranks that ZeRO shards over

  // The entry of a table row; nullptr when it is not here.
  const BucketEntry* Find(int row) const;
};

struct ShardPlan {
  // For the rank at (pipeline, any tensor, any data) of a layout.
  ShardPlan(const ParameterTable& table, const ParallelLayout& layout, const StagePartition& partition, int pipeline);

  std::vector<Bucket> buckets;
  int data = 1;
  // Index of the tied bucket here; -1 when this rank has none.
  int tied_bucket = -1;
  // True when the tied table's gradients must be summed with another pipeline stage's copy.
  bool tied_across_stages = false;
  // True when this rank counts the tied bucket in norms and saves it (the first stage does).
  bool counts_tied = false;
};

// What a ZeRO stage shards of a bucket: of one that stays whole the optimizer's state alone, as stage 1 does.
inline ZeroPolicy ShardsOf(const Bucket& bucket, int zero) { return ZeroShards(bucket.whole ? 1 : zero); }

// Elements [first, last) of a bucket that data rank `rank` owns.
struct OwnedRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t count() const { return last - first; }
};
OwnedRange OwnedBy(const Bucket& bucket, int data_rank);
// Elements of a bucket that a data rank owns under a ZeRO stage, and updates unless they are frozen.
inline std::int64_t OwnedCount(const Bucket& bucket, int zero) {
  return !ZeroShards(zero).optimizer ? bucket.count : bucket.shard;
}

// Elements of a shard that are updated at a time where their optimizer state lies in host memory: two such pieces of
// state are on the device, one coming while the other goes. At most so many, and no more than the largest owned shard.
inline constexpr std::int64_t kMostHostPiece = std::int64_t{1} << 22;
std::int64_t HostPiece(const ShardPlan& plan, int zero);

}  // namespace trireme
