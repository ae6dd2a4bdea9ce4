// PowerSGD (Vogels, Karimireddy and Jaggi 2019): data ranks reduce a gradient matrix M [n, m] as two thin factors,
// P = M Q [n, r] and Q = M^T P [m, r], with r far below n and m. Which matrices, and what it costs, as plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/accounting.h"
#include "cost/shard_plan.h"
#include "run/run_config.h"

namespace trireme {

// A rank's slice of a matrix of a bucket; offsets and counts in elements.
struct CompressedMatrix {
  int row = 0;              // of the ParameterTable
  std::int64_t offset = 0;  // in the bucket
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
  std::int64_t left = 0;   // offset of P among those of the bucket
  std::int64_t right = 0;  // offset of Q among those of all buckets
  std::int64_t error = 0;  // offset of what was left out, among that of all buckets
  std::int64_t count() const { return rows * columns; }
};

struct CompressedBucket {
  std::vector<CompressedMatrix> matrices;
  std::vector<OwnedRange> whole;  // the rest of the bucket, reduced as it is
  std::int64_t left = 0;          // elements of all its P
  std::int64_t right = 0;         // elements of all its Q
};

struct PowerSgdPlan {
  PowerSgdPlan() = default;  // no compression
  // Every matrix of the stage whose factors are smaller than itself; the rest is reduced whole. None where there is one
  // data rank.
  PowerSgdPlan(const OptimizerConfig& config, const ShardPlan& shards, const ParallelLayout& layout);

  bool active() const { return !buckets.empty(); }
  std::int64_t Bytes() const;  // of gradient memory
  void AddTraffic(Traffic& data) const;
  std::int64_t Flops() const;

  std::vector<CompressedBucket> buckets;
  std::int64_t rights = 0;  // elements of all Q
  std::int64_t errors = 0;
  std::int64_t most_left = 0;  // of any bucket
  std::int64_t most_right = 0;
};

}  // namespace trireme
