#include "train/memory_room.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "cost/step_cost.h"

namespace trireme {
namespace {

RunConfig ConfigOf(const std::vector<std::string>& settings) { return ParseRecipe("", "test.toml", settings).config; }

std::string Refusal(const RunConfig& config, std::int64_t bytes) {
  try {
    RequireRoom(config, bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MemoryRoom, EveryRankCounts) {
  const RunConfig config = ConfigOf({"batch.global=4", "layout.data=2", "layout.tensor=2", "layout.pipeline=2"});
  std::int64_t bytes = 0;
  for (const int pipeline : {0, 1}) {
    bytes += 4 * MemoryOfStage(StageOfRun(config, pipeline, 4).description()).total();
  }
  EXPECT_EQ(MemoryOfRun(config), bytes);
}

TEST(MemoryRoom, WhatDoesNotFitOffersTheLargestMicroBatchThatDoes) {
  const RunConfig large = ConfigOf({"layout.micro_batch=24", "batch.global=24"});
  const RunConfig third = ConfigOf({"layout.micro_batch=8", "batch.global=24"});
  EXPECT_EQ(Refusal(large, MemoryOfRun(large)), "");
  EXPECT_THAT(Refusal(large, MemoryOfRun(third)), testing::AllOf(testing::HasSubstr("the 1 ranks need"),
                                                                 testing::HasSubstr("layout.micro_batch = 8 would fit"),
                                                                 testing::Not(testing::HasSubstr("recompute"))));
  const RunConfig least = ConfigOf({"layout.micro_batch=1", "batch.global=24", "layout.recompute=full"});
  EXPECT_THAT(Refusal(large, MemoryOfRun(least)),
              testing::HasSubstr("layout.micro_batch = 1 with layout.recompute = 'full' would fit"));
  EXPECT_THAT(Refusal(large, MemoryOfRun(least) - 1), testing::HasSubstr("no micro batch fits"));
}

}  // namespace
}  // namespace trireme
