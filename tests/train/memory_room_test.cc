#include "train/memory_room.h"

#include <gmock/gmock.h>

#include <numeric>

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

std::vector<int> FirstRanks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(MemoryRoom, OffloadedStateCountsOnTheMachine) {
  RunConfig config = ConfigOf({"batch.global=4", "layout.data=2", "layout.pipeline=2", "layout.zero=1"});
  const std::int64_t on_devices = MemoryOfRun(config);
  EXPECT_EQ(HostNeedsOf(config, FirstRanks(4), {.saves = false}).total(), 0);
  config.layout.offload = Offload::kOptimizer;
  std::int64_t held = 0;
  for (const int pipeline : {0, 1}) {
    held += 2 * MemoryOfStage(StageOfRun(config, pipeline, 4).description())[MemoryKind::kHost];
  }
  const HostNeeds needs = HostNeedsOf(config, FirstRanks(4), {});
  EXPECT_EQ(needs.held, held);
  EXPECT_GT(MemoryOfRun(config), on_devices) << "what passes through the devices comes on top";
  // 12 bytes a parameter, and the padding of buckets.
  const auto parameters = static_cast<double>(ParameterCount(config.model));
  EXPECT_NEAR(static_cast<double>(needs.copied) / (12 * parameters), 1, 0.05);
  EXPECT_LT(HostNeedsOf(config, std::vector{0, 1}, {}).total(), needs.total());
  EXPECT_EQ(HostNeedsOf(config, FirstRanks(4), {.devices_are_hosts = true}).held, MemoryOfRun(config));
}

TEST(MemoryRoom, CopiesWithoutZeroAreSavedOnce) {
  const RunConfig one = ConfigOf({"batch.global=4"});
  const RunConfig two = ConfigOf({"batch.global=4", "layout.data=2", "layout.zero=0"});
  const std::int64_t copied = HostNeedsOf(one, FirstRanks(1), {}).copied;
  EXPECT_NEAR(static_cast<double>(HostNeedsOf(two, FirstRanks(2), {}).copied) / static_cast<double>(copied), 1, 0.05);
}

TEST(MemoryRoom, WhereDevicesAreTheHostNoOffloadingIsBlamed) {
  const RunConfig config = ConfigOf({"batch.global=4", "layout.data=2", "layout.offload=optimizer"});
  const HostUse use{.devices_are_hosts = true};
  const std::int64_t bytes = HostNeedsOf(config, FirstRanks(2), use).total();
  EXPECT_NO_THROW(RequireHostRoom(config, FirstRanks(2), use, bytes));
  try {
    RequireHostRoom(config, FirstRanks(2), use, bytes - 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("take a smaller model, more machines"),
                                             testing::Not(testing::HasSubstr("offload"))));
  }
}

TEST(MemoryRoom, AMachineWithTooLittleHostMemoryIsNamedWithItsNumbers) {
  const RunConfig config = ConfigOf({"batch.global=4", "layout.data=2", "layout.offload=optimizer"});
  const std::int64_t bytes = HostNeedsOf(config, FirstRanks(2), {}).total();
  EXPECT_NO_THROW(RequireHostRoom(config, FirstRanks(2), {}, bytes));
  try {
    RequireHostRoom(config, FirstRanks(2), {}, bytes - 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("the 2 ranks of this machine need"),
                                             testing::HasSubstr("layout.offload = 'none'")));
  }
}

}  // namespace
}  // namespace trireme
