#include "cost/power_sgd_plan.h"

#include <algorithm>

#include "lowering/memory_plan.h"

namespace trireme {

PowerSgdPlan::PowerSgdPlan(const OptimizerConfig& config, const ShardPlan& shards, const ParallelLayout& layout) {
  if (config.powersgd_rank == 0 || layout.replicas() == 1) {
    return;
  }
  for (const Bucket& bucket : shards.buckets) {
    CompressedBucket& compressed = buckets.emplace_back();
    std::int64_t done = 0;
    for (const BucketEntry& entry : bucket.entries) {  // by offset
      const std::int64_t rank = config.powersgd_rank;
      if (entry.shape.rank() != 2 || rank * (entry.shape[0] + entry.shape[1]) >= entry.count) {
        continue;
      }
      CompressedMatrix matrix{.row = entry.row,
                              .offset = entry.offset,
                              .rows = entry.shape[0],
                              .columns = entry.shape[1],
                              .rank = rank,
                              .left = compressed.left,
                              .right = rights,
                              .error = errors};
      compressed.left += matrix.rows * matrix.rank;
      compressed.right += matrix.columns * matrix.rank;
      rights += matrix.columns * matrix.rank;
      errors += matrix.count();
      if (matrix.offset > done) {
        compressed.whole.push_back({done, matrix.offset});
      }
      done = matrix.offset + matrix.count();
      compressed.matrices.push_back(matrix);
    }
    if (bucket.count > done) {
      compressed.whole.push_back({done, bucket.count});
    }
    most_left = std::max(most_left, compressed.left);
    most_right = std::max(most_right, compressed.right);
  }
}

std::int64_t PowerSgdPlan::Bytes() const {
  const auto bytes = [](std::int64_t count) { return RoundUp(count * SizeOf(DType::kFloat32), kPlanAlignment); };
  return active() ? bytes(rights) + bytes(errors) + bytes(most_left) + 2 * bytes(most_right) : 0;
}

void PowerSgdPlan::AddTraffic(Traffic& data) const {
  for (const CompressedBucket& bucket : buckets) {
    for (const OwnedRange& range : bucket.whole) {
      data.Add(CollectiveKind::kAllReduce, range.count() * 4);
    }
    if (!bucket.matrices.empty()) {
      data.Add(CollectiveKind::kAllReduce, bucket.left * 4);
      data.Add(CollectiveKind::kAllReduce, bucket.right * 4);
    }
  }
}

std::int64_t PowerSgdPlan::Flops() const {
  std::int64_t flops = 0;
  for (const CompressedBucket& bucket : buckets) {
    for (const CompressedMatrix& matrix : bucket.matrices) {
      flops += 8 * matrix.count() * matrix.rank;  // both factors, what they leave out, and the sum from them
    }
  }
  return flops;
}

}  // namespace trireme
