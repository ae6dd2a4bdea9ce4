#include "cost/shard_plan.h"

#include <algorithm>

#include "cost/memory_plan.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

Bucket MakeBucket(const ParameterTable& table, std::int64_t module, const std::vector<int>& rows, int tensor,
                  int data) {
  Bucket bucket;
  bucket.module = module;
  std::int64_t offset = 0;
  for (const bool replicated : {true, false}) {
    for (const int row : rows) {
      const Parameter& parameter = table.rows()[static_cast<std::size_t>(row)];
      if (parameter.split.replicated() != replicated) {
        continue;
      }
      const Shape local = LocalShape(parameter, tensor);
      bucket.entries.push_back({.row = row, .offset = offset, .count = local.count(), .shape = local});
      offset = RoundUp(offset + local.count(), kBucketUnit);
    }
    if (replicated) {
      bucket.replicated = offset;
    }
  }
  bucket.count = RoundUp(offset, data * kBucketUnit);
  bucket.shard = bucket.count / data;
  return bucket;
}

std::int64_t Bytes(std::int64_t count, DType dtype) { return RoundUp(count * SizeOf(dtype), kPlanAlignment); }

// An fp32 weight is its own master; a bf16 one is the master's upper half, the lower one lies beside the moments.
std::int64_t OptimizerBytes(std::int64_t count, DType working_dtype, DType moments) {
  return (working_dtype == DType::kFloat32 ? 0 : Bytes(count, DType::kUInt16)) + 2 * Bytes(count, moments);
}

}  // namespace

const BucketEntry* Bucket::Find(int row) const {
  for (const BucketEntry& entry : entries) {
    if (entry.row == row) {
      return &entry;
    }
  }
  return nullptr;
}

ShardPlan::ShardPlan(const ParameterTable& table, const ParallelLayout& layout, const StagePartition& partition,
                     int pipeline)
    : data(layout.data) {
  const std::int64_t head = table.config().modules() - 1;
  bool has_embedding = false;
  bool has_head = false;
  const StagePlacement placement = PlacementOf(layout);
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const ModuleRange range = partition.Range(placement.VirtualStage(pipeline, chunk));
    for (std::int64_t module = range.first; module < range.last; ++module) {
      std::vector<int> rows;
      for (const int row : table.OfModule(module)) {
        if (!table.Tied(row)) {
          rows.push_back(row);
        }
      }
      if (!rows.empty()) {
        buckets.push_back(MakeBucket(table, module, rows, layout.tensor, layout.data));
      }
      has_embedding = has_embedding || module == 0;
      has_head = has_head || module == head;
    }
  }
  if (table.config().tie_embeddings && (has_embedding || has_head)) {
    Bucket tied = MakeBucket(table, has_embedding ? 0 : head, {table.token_table()}, layout.tensor, layout.data);
    tied.tied = true;
    tied_bucket = static_cast<int>(buckets.size());
    buckets.push_back(tied);
    tied_across_stages = !(has_embedding && has_head);
    counts_tied = has_embedding;
  }
}

std::int64_t ShardPlan::LargestBucket(bool tied) const {
  std::int64_t largest = 0;
  for (const Bucket& bucket : buckets) {
    if (bucket.tied == tied) {
      largest = std::max(largest, bucket.count);
    }
  }
  return largest;
}

int ShardPlan::BucketOfModule(std::int64_t module) const {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (!buckets[i].tied && buckets[i].module == module) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

OwnedRange OwnedBy(const Bucket& bucket, int data_rank) {
  return {.first = data_rank * bucket.shard, .last = (data_rank + 1) * bucket.shard};
}

std::int64_t HostPiece(const ShardPlan& plan, int zero) {
  std::int64_t largest = 0;
  for (const Bucket& bucket : plan.buckets) {
    largest = std::max(largest, OwnedCount(bucket, zero));
  }
  return std::min(largest, kMostHostPiece);
}

MemoryUse StateMemory(const ShardPlan& plan, const ParallelLayout& layout, DType working_dtype, DType moments) {
  const int zero = layout.zero;
  const bool offloads = layout.offload != Offload::kNone;
  const bool offloads_weights = layout.offload == Offload::kFull;
  MemoryUse use;
  std::int64_t largest_shard = 0;
  for (const Bucket& bucket : plan.buckets) {
    const std::int64_t owned = OwnedCount(bucket, zero);
    use[offloads_weights ? MemoryKind::kHost : MemoryKind::kWeights] +=
        Bytes(ZeroShards(zero).parameters ? bucket.shard : bucket.count, working_dtype);
    use[MemoryKind::kGradients] += Bytes(ZeroShards(zero).gradients ? bucket.shard : bucket.count, DType::kFloat32);
    use[offloads ? MemoryKind::kHost : MemoryKind::kOptimizer] += OptimizerBytes(owned, working_dtype, moments);
    largest_shard = std::max(largest_shard, bucket.shard);
  }
  if (offloads) {
    const std::int64_t piece = HostPiece(plan, zero);
    use[MemoryKind::kOptimizer] +=
        2 * (OptimizerBytes(piece, working_dtype, moments) + (offloads_weights ? Bytes(piece, working_dtype) : 0));
  }
  for (const bool tied : {false, true}) {
    const std::int64_t largest = plan.LargestBucket(tied);
    if (largest == 0) {
      continue;
    }
    if (layout.gathers_modules()) {
      use[MemoryKind::kWeights] += (tied ? 1 : 2) * Bytes(largest, working_dtype);
    }
    if (ZeroShards(zero).gradients) {
      use[MemoryKind::kGradients] += Bytes(largest, DType::kFloat32);
    }
  }
  if (ZeroShards(zero).gradients) {
    use[MemoryKind::kGradients] += Bytes(largest_shard, DType::kFloat32);
  }
  return use;
}

}  // namespace trireme
