#include "cost/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost/rank_tensors.h"
#include "schedule/schedule.h"

namespace trireme {
namespace {

ModelConfig Model(const std::string& family, bool tied) {
  ModelConfig config;
  config.family = family;
  config.layers = 4;
  config.hidden = 24;
  config.heads = 4;
  config.ffn = 40;
  config.vocabulary = 101;
  config.sequence = 8;
  config.tie_embeddings = tied;
  return Completed(config, true);
}

std::vector<ParallelLayout> Layouts() {
  std::vector<ParallelLayout> layouts;
  for (const int tensor : {1, 2, 4}) {
    for (const int pipeline : {1, 2, 4}) {
      for (const int data : {1, 2, 3, 7}) {
        layouts.push_back({.tensor = tensor, .pipeline = pipeline, .data = data});
      }
    }
  }
  layouts.push_back({.pipeline = 2, .data = 2, .schedule = "interleaved", .chunks = 2});
  layouts.push_back({.pipeline = 2, .data = 2, .schedule = "zero_bubble_v", .chunks = 2});
  return layouts;
}

template <typename Visit>
void ForEachPlan(const Visit& visit) {
  for (const std::string family : {"gpt2", "bloom", "llama"}) {
    for (const bool tied : {false, true}) {
      const ParameterTable table(Model(family, tied));
      for (const ParallelLayout& layout : Layouts()) {
        SCOPED_TRACE(family + (tied ? " tied " : " untied ") + layout.ToString());
        visit(table, layout);
      }
    }
  }
}

TEST(ShardPlan, BucketsKeepTheirInvariants) {
  ForEachPlan([](const ParameterTable& table, const ParallelLayout& layout) {
    const StagePartition partition(table.config(), layout);
    for (int pipeline = 0; pipeline < layout.pipeline; ++pipeline) {
      const ShardPlan plan(table, layout, partition, pipeline);
      for (const Bucket& bucket : plan.buckets) {
        EXPECT_EQ(bucket.count % (layout.data * kBucketUnit), 0);
        EXPECT_EQ(bucket.shard * layout.data, bucket.count);
        std::int64_t end = 0;
        for (const BucketEntry& entry : bucket.entries) {
          const Parameter& parameter = table.rows()[static_cast<std::size_t>(entry.row)];
          EXPECT_GE(entry.offset, end) << "entries overlap";
          EXPECT_EQ(entry.offset % kBucketUnit, 0);
          EXPECT_EQ(entry.count, LocalShape(parameter, layout.tensor).count());
          EXPECT_EQ(entry.offset < bucket.replicated, parameter.split.replicated()) << parameter.name;
          end = entry.offset + entry.count;
        }
        EXPECT_LE(end, bucket.count);
      }
    }
  });
}

TEST(ShardPlan, EveryParameterIsHeldByOneStageAndATiedTableByBothEnds) {
  ForEachPlan([](const ParameterTable& table, const ParallelLayout& layout) {
    const StagePartition partition(table.config(), layout);
    std::vector<int> held(table.rows().size());
    int counts_tied = 0;
    int crosses = 0;
    for (int pipeline = 0; pipeline < layout.pipeline; ++pipeline) {
      const ShardPlan plan(table, layout, partition, pipeline);
      for (const Bucket& bucket : plan.buckets) {
        for (const BucketEntry& entry : bucket.entries) {
          ++held[static_cast<std::size_t>(entry.row)];
        }
      }
      counts_tied += plan.counts_tied ? 1 : 0;
      crosses += plan.tied_across_stages ? 1 : 0;
    }
    const bool two_stages = PlacementOf(layout).HeadStage() != 0;  // one holds the embedding, the other the head
    for (std::size_t row = 0; row < held.size(); ++row) {
      const bool twice = table.Tied(static_cast<int>(row)) && two_stages;
      EXPECT_EQ(held[row], twice ? 2 : 1) << table.rows()[row].name;
    }
    EXPECT_EQ(counts_tied, table.config().tie_embeddings ? 1 : 0);
    EXPECT_EQ(crosses, table.config().tie_embeddings && two_stages ? 2 : 0);
  });
}

TEST(ShardPlan, ShardsCoverABucketWithoutOverlap) {
  ForEachPlan([](const ParameterTable& table, const ParallelLayout& layout) {
    const ShardPlan plan(table, layout, StagePartition(table.config(), layout), 0);
    for (const Bucket& bucket : plan.buckets) {
      std::int64_t reached = 0;
      for (int rank = 0; rank < layout.data; ++rank) {
        const OwnedRange owned = OwnedBy(bucket, rank);
        EXPECT_EQ(owned.first, reached);
        reached = owned.last;
      }
      EXPECT_EQ(reached, bucket.count);
    }
  });
}

TEST(ShardPlan, HigherStagesHoldLess) {
  const ParameterTable table(Model("llama", false));
  ParallelLayout layout{.data = 4};
  const ShardPlan plan(table, layout, StagePartition(table.config(), layout), 0);
  std::vector<MemoryUse> use;
  for (layout.zero = 0; layout.zero <= 3; ++layout.zero) {
    use.push_back(StateMemory(plan, {.zero = layout.zero}));
  }
  EXPECT_EQ(use[1][MemoryKind::kOptimizer] * 4, use[0][MemoryKind::kOptimizer]);
  EXPECT_EQ(use[1][MemoryKind::kGradients], use[0][MemoryKind::kGradients]);
  EXPECT_LT(use[2][MemoryKind::kGradients], use[1][MemoryKind::kGradients]);
  EXPECT_EQ(use[2][MemoryKind::kWeights], use[0][MemoryKind::kWeights]);
  EXPECT_LT(use[3][MemoryKind::kWeights], use[2][MemoryKind::kWeights]);
}

}  // namespace
}  // namespace trireme
