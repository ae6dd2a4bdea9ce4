#include "train/memory_room.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/error.h"
#include "cost/communication_memory.h"
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

TEST(MemoryRoom, AutomaticRecomputationIsTheLeastThatFits) {
  RunConfig config = ConfigOf({"layout.micro_batch=2", "batch.global=24", "layout.data=2", "layout.pipeline=2"});
  const auto need = [&](Recompute level) {
    RunConfig with = config;
    with.layout.recompute = level;
    std::int64_t most = 0;
    for (const int pipeline : {0, 1}) {
      const StageOfRun stage(with, pipeline, 24);
      most = std::max(most, MemoryOfStage(stage.description()).total() + CommunicationOf(stage.description()).total());
    }
    return most;
  };
  std::int64_t before = INT64_MAX;
  for (const Recompute level : {Recompute::kNone, Recompute::kLight, Recompute::kSelective, Recompute::kFull}) {
    const std::int64_t room = need(level);
    if (room < before) {
      EXPECT_EQ(Fitted(config, room, {}).layout.recompute, level);
    }
    before = std::min(before, room);
  }
  EXPECT_EQ(Fitted(config, 0, {}).layout.recompute, Recompute::kFull);
  EXPECT_EQ(Fitted(config, need(Recompute::kNone), {}).layout.micro_batch, 2);
}

TEST(MemoryRoom, FittingTakesTheLargestMicroBatchUpToTheBatch) {
  const RunConfig config = ConfigOf({"layout.micro_batch=1", "batch.global=24", "layout.data=2"});
  const auto with = [&](int micro_batch) {
    RunConfig other = config;
    other.layout.micro_batch = micro_batch;
    const StageOfRun stage(other, 0, 24);
    return MemoryOfStage(stage.description()).total() + CommunicationOf(stage.description()).total();
  };
  const FitChoices both = {.recompute = true, .micro_batch = true};
  EXPECT_EQ(Fitted(config, with(12), both).layout.micro_batch, 12);
  EXPECT_EQ(Fitted(config, with(12) - 1, both).layout.micro_batch, 6);
  EXPECT_EQ(Fitted(config, with(4), both).layout.micro_batch, 4);
  EXPECT_EQ(Fitted(config, with(4), both).layout.recompute, Recompute::kNone);
  EXPECT_EQ(Fitted(config, 0, both).layout.micro_batch, 1);
}

TEST(MemoryRoom, RanksOfOneDeviceDivideIt) {
  constexpr std::int64_t kMemory = std::int64_t{141} << 30;
  EXPECT_LT(RoomOnDevice(kMemory, 1), kMemory);
  EXPECT_EQ(RoomOnDevice(kMemory, 4), RoomOnDevice(kMemory, 1) / 4);
  EXPECT_EQ(RoomOnDevice(1 << 30, 1), 0);
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
