#include "cost/shard_plan.h"

#include <algorithm>
#include <utility>

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

bool StaysWhole(const Parameter& parameter, const ParallelLayout& layout) {
  return ZeroShards(layout.zero).parameters && LocalShape(parameter, layout.tensor).count() < layout.whole_below;
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
    : data(layout.shards()) {
  const std::int64_t head = table.config().modules() - 1;
  bool has_embedding = false;
  bool has_head = false;
  const StagePlacement placement = PlacementOf(layout);
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    const ModuleRange range = partition.Range(placement.VirtualStage(pipeline, chunk));
    for (std::int64_t module = range.first; module < range.last; ++module) {
      for (const auto& [frozen, whole] : {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
        std::vector<int> rows;
        for (const int row : table.OfModule(module)) {
          const Parameter& parameter = table.rows()[static_cast<std::size_t>(row)];
          if (!table.Tied(row) && parameter.frozen == frozen && StaysWhole(parameter, layout) == whole) {
            rows.push_back(row);
          }
        }
        if (!rows.empty()) {
          buckets.push_back(MakeBucket(table, module, rows, layout.tensor, layout.shards()));
          buckets.back().frozen = frozen;
          buckets.back().whole = whole;
        }
      }
      has_embedding = has_embedding || module == 0;
      has_head = has_head || module == head;
    }
  }
  if (table.config().tie_embeddings && (has_embedding || has_head)) {
    Bucket tied = MakeBucket(table, has_embedding ? 0 : head, {table.token_table()}, layout.tensor, layout.shards());
    tied.tied = true;
    const Parameter& token_table = table.rows()[static_cast<std::size_t>(table.token_table())];
    tied.frozen = token_table.frozen;
    tied.whole = StaysWhole(token_table, layout);
    tied_bucket = static_cast<int>(buckets.size());
    buckets.push_back(tied);
    tied_across_stages = !(has_embedding && has_head);
    counts_tied = has_embedding;
  }
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

}  // namespace trireme
