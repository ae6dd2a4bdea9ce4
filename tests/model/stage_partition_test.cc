#include "model/stage_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

using testing::HasSubstr;

ModelConfig Layers(std::int64_t layers) { return Completed({.layers = layers}); }

StagePartition Partition(const ModelConfig& config, int stages, const std::string& partition, int chunks = 1) {
  return StagePartition(config, {.pipeline = stages, .chunks = chunks, .partition = partition});
}

std::string MessageOf(const ModelConfig& config, int stages, const std::string& partition, int chunks = 1) {
  try {
    Partition(config, stages, partition, chunks);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StagePartition, EmbeddingJoinsTheFirstAndHeadTheLast) {
  const StagePartition partition = Partition(Layers(4), 2, "uniform");
  EXPECT_EQ(partition.Range(0), (ModuleRange{.first = 0, .last = 3}));
  EXPECT_EQ(partition.Range(1), (ModuleRange{.first = 3, .last = 6}));
  EXPECT_EQ(partition.ToString(), "2,2");
}

TEST(StagePartition, UniformRefusesARestAndNamesWhatWorks) {
  const std::string message = MessageOf(Layers(78), 12, "uniform");
  EXPECT_THAT(message, HasSubstr("model.layers = 78"));
  EXPECT_THAT(message, HasSubstr("layout.pipeline = 12"));
  EXPECT_THAT(message, HasSubstr("layers 72 or 84"));
  EXPECT_THAT(message, HasSubstr("6 or 13 stages"));
  EXPECT_THAT(MessageOf(Layers(12), 4, "uniform", 2), HasSubstr("layout.chunks = 2 = 8"));
}

TEST(StagePartition, BalancedWeighsEmbeddingAndHeadAsLayers) {
  EXPECT_EQ(Partition(Layers(70), 12, "balanced").ToString(), "5,6,6,6,6,6,6,6,6,6,6,5");
  EXPECT_EQ(Partition(Layers(5), 3, "balanced").ToString(), "1,3,1");
  EXPECT_EQ(Partition(Layers(2), 4, "balanced").ToString(), "0,1,1,0");
  EXPECT_EQ(Partition(Layers(3), 1, "balanced").ToString(), "3");
}

TEST(StagePartition, CostGivesAHeavyHeadFewerBlocks) {
  ModelConfig config = Layers(8);
  EXPECT_EQ(Partition(config, 1, "cost").ToString(), "8");
  config.vocabulary = 3 * 12 * config.hidden;  // three blocks' worth of FLOPs, and a little more attention in them
  const StagePartition partition = Partition(config, 4, "cost");
  EXPECT_EQ(partition.ToString(), "2,3,3,0");
  EXPECT_LT(partition.Imbalance(), Partition(config, 4, "uniform").Imbalance());
}

// No other partition of so small a model may have a faster slowest stage.
TEST(StagePartition, CostIsOptimal) {
  for (const std::int64_t vocabulary : {64, 2000, 9000}) {
    for (std::int64_t layers = 1; layers <= 7; ++layers) {
      ModelConfig config = Layers(layers);
      config.vocabulary = vocabulary;
      const double found = Partition(config, 3, "cost").Imbalance();
      for (std::int64_t first = 0; first < layers; ++first) {
        for (std::int64_t middle = 1; first + middle <= layers; ++middle) {
          const std::string list = fmt::format("{},{},{}", first, middle, layers - first - middle);
          EXPECT_LE(found, Partition(config, 3, list).Imbalance() + 1e-12) << list;
        }
      }
    }
  }
}

TEST(StagePartition, TakesAList) {
  EXPECT_EQ(Partition(Layers(20), 3, "7,7,6").ToString(), "7,7,6");
  const StagePartition alone = Partition(Layers(4), 3, "0,4,0");
  EXPECT_EQ(alone.Range(0), (ModuleRange{.first = 0, .last = 1}));
  EXPECT_EQ(alone.Range(2), (ModuleRange{.first = 5, .last = 6}));
}

TEST(StagePartition, RefusesListsThatDoNotFit) {
  EXPECT_THAT(MessageOf(Layers(20), 3, "7,7,7"), HasSubstr("sums to 21"));
  EXPECT_THAT(MessageOf(Layers(20), 3, "10,10"), HasSubstr("lists 2 stages"));
  EXPECT_THAT(MessageOf(Layers(20), 3, "10,0,10"), HasSubstr("stage 1 without any layer"));
  for (const char* text : {"7,7,", ",", "", "7 7 6", "-1,11,10", "unifrom", "99999999999999999999,1,1"}) {
    EXPECT_THAT(MessageOf(Layers(20), 3, text), HasSubstr("layout.partition")) << text;
  }
  EXPECT_THAT(MessageOf(Layers(2), 5, "balanced"), HasSubstr("the most that works is 4"));
}

TEST(StagePartition, CoversEveryModuleInOrder) {
  for (const char* kind : {"uniform", "balanced", "cost"}) {
    for (int stages = 1; stages <= 6; ++stages) {
      const StagePartition partition = Partition(Layers(12), stages, stages == 5 ? "balanced" : kind);
      std::int64_t next = 0;
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(partition.Range(stage).first, next);
        EXPECT_GT(partition.Range(stage).size(), 0);
        next = partition.Range(stage).last;
      }
      EXPECT_EQ(next, 14);
      EXPECT_GE(partition.Imbalance(), 1.0);
    }
  }
}

}  // namespace
}  // namespace trireme
