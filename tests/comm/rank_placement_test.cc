#include "comm/rank_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>

#include "comm/rank_runner.h"

namespace trireme {
namespace {

HostCores FourCores() {
  HostCores cores;
  for (int id = 0; id < 4; ++id) {
    cores.processors.push_back({.id = id, .core = id, .node = id / 2});
  }
  return cores;
}

class RankPlacementOf : public testing::Test {
 protected:
  void SetUp() override { unsetenv("OMP_NUM_THREADS"); }
};

TEST_F(RankPlacementOf, RanksDividesTheCores) {
  const DeviceOptions options{.kind = "cpu", .threads = 0};
  EXPECT_EQ(PlaceRanks(FourCores(), 1, options).threads, 4);
  EXPECT_EQ(PlaceRanks(FourCores(), 2, options).threads, 2);
  EXPECT_EQ(PlaceRanks(FourCores(), 3, options).threads, 1);
  EXPECT_TRUE(PlaceRanks(FourCores(), 4, options).cores_suffice);
  EXPECT_EQ(PlaceRanks(FourCores(), 64, options).threads, 1);
  EXPECT_FALSE(PlaceRanks(FourCores(), 64, options).cores_suffice);
}

TEST_F(RankPlacementOf, AGivenThreadCountIsKept) {
  const RankPlacement placement = PlaceRanks(FourCores(), 2, {.kind = "cpu", .threads = 3, .pin = "cores"});
  EXPECT_EQ(placement.threads, 3);
  EXPECT_FALSE(placement.cores_suffice);
  EXPECT_TRUE(placement.processors.empty());
  EXPECT_TRUE(placement.of_rank(1).empty());
}

TEST_F(RankPlacementOf, BoundRanksHaveCoresOfTheirOwn) {
  const RankPlacement placement = PlaceRanks(FourCores(), 2, {.kind = "cpu", .threads = 0, .pin = "cores"});
  EXPECT_THAT(placement.of_rank(0), testing::ElementsAre(0, 1));
  EXPECT_THAT(placement.of_rank(1), testing::ElementsAre(2, 3));
}

TEST_F(RankPlacementOf, ARankIsToldItsThreads) {
  std::atomic<int> sum = 0;
  RunThreadRanks(2, {.kind = "cpu", .threads = 3}, [&](RankContext& context) { sum += context.threads; });
  EXPECT_EQ(sum, 6);
  sum = 0;
  RunThreadRanks(1, {.kind = "cpu", .threads = 0}, [&](RankContext& context) { sum += context.threads; });
  EXPECT_EQ(sum, ReadHostCores().usable());
}

TEST_F(RankPlacementOf, RanksThatABoundRankStartsMayUseAllCores) {
  const int ranks = std::min(2, ReadHostCores().usable());
  RunThreadRanks(ranks, {.kind = "cpu", .threads = 1, .pin = "cores"}, [](RankContext&) {
    EXPECT_EQ(ProcessorsOfThisThread().size(), 1U);
    RunThreadRanks(2, {.kind = "cpu", .threads = 1, .pin = "none"},
                   [](RankContext&) { EXPECT_EQ(ProcessorsOfThisThread(), ReadHostCores().ids()); });
    EXPECT_EQ(ProcessorsOfThisThread().size(), 1U) << "its own cores stay";
  });
}

TEST_F(RankPlacementOf, ARankThatIsNotBoundHasTheCoresOfItsProcess) {
  RunThreadRanks(1, {.kind = "cpu", .threads = 1},
                 [](RankContext&) { EXPECT_EQ(ProcessorsOfThisThread(), ReadHostCores().ids()); });
}

}  // namespace
}  // namespace trireme
