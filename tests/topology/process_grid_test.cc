#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "topology/context_share.h"
#include "topology/layout.h"

namespace trireme {
namespace {

using testing::ElementsAre;

const ParallelLayout kLayout{.tensor = 2, .context = 3, .pipeline = 2, .data = 4};

TEST(ProcessGrid, TensorAxisIsInnermostAndPipelineOutermost) {
  const ProcessGrid grid(kLayout);
  EXPECT_EQ(grid.CoordinateOf(0), (Coordinate{}));
  EXPECT_EQ(grid.CoordinateOf(1), (Coordinate{.tensor = 1}));
  EXPECT_EQ(grid.CoordinateOf(2), (Coordinate{.context = 1}));
  EXPECT_EQ(grid.CoordinateOf(6), (Coordinate{.data = 1}));
  EXPECT_EQ(grid.CoordinateOf(24), (Coordinate{.pipeline = 1}));
}

TEST(ProcessGrid, RankAndCoordinateAreInverse) {
  const ProcessGrid grid(kLayout);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    EXPECT_EQ(grid.RankOf(grid.CoordinateOf(rank)), rank);
  }
}

TEST(ProcessGrid, RanksAlongAnAxisShareAllOtherCoordinates) {
  const ProcessGrid grid(kLayout);
  EXPECT_THAT(grid.RanksAlong(Axis::kTensor, 7), ElementsAre(6, 7));
  EXPECT_THAT(grid.RanksAlong(Axis::kContext, 7), ElementsAre(7, 9, 11));
  EXPECT_THAT(grid.RanksAlong(Axis::kData, 7), ElementsAre(1, 7, 13, 19));
  EXPECT_THAT(grid.RanksAlong(Axis::kPipeline, 7), ElementsAre(7, 31));
}

TEST(ProcessGrid, ReplicasAreDataAndContextRanks) {
  const ProcessGrid grid(kLayout);
  EXPECT_THAT(grid.Replicas(7), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23));
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const auto place = static_cast<std::size_t>(grid.ReplicaOf(grid.CoordinateOf(rank)));
    EXPECT_EQ(grid.Replicas(rank)[place], rank);
  }
}

TEST(ContextShare, HoldsEveryTokenOnceAndEachItsOwnTwoChunks) {
  for (const int degree : {1, 2, 3, 6}) {
    std::set<std::int64_t> seen;
    for (int rank = 0; rank < degree; ++rank) {
      const ContextShare share{.sequence = 24, .degree = degree, .rank = rank};
      for (std::int64_t i = 0; i < share.tokens(); ++i) {
        EXPECT_TRUE(seen.insert(share.Position(i)).second);
      }
      for (int chunk = 0; chunk < 2 * degree && degree > 1; ++chunk) {
        const ChunkPlace place = PlaceOfChunk(share, chunk);
        const ContextShare owner{.sequence = 24, .degree = degree, .rank = place.rank};
        EXPECT_EQ(owner.Position(place.first), chunk * share.chunk());
      }
    }
    EXPECT_EQ(seen.size(), 24U);
  }
  const ContextShare last{.sequence = 24, .degree = 3, .rank = 2};
  EXPECT_THAT(last.Chunks(), ElementsAre(8, 12));
  EXPECT_THAT((ContextShare{.sequence = 24, .degree = 3, .rank = 0}).Chunks(), ElementsAre(0, 20));
}

// Every stripe is cut as a sequence of its own.
TEST(ContextShare, StripesAreEachDividedAmongAllRanks) {
  std::set<std::int64_t> seen;
  for (int rank = 0; rank < 2; ++rank) {
    const ContextShare share{.sequence = 24, .degree = 2, .rank = rank, .stripes = 3};
    EXPECT_EQ(share.chunk(), 2);
    for (std::int64_t i = 0; i < share.tokens(); ++i) {
      EXPECT_TRUE(seen.insert(share.Position(i)).second);
    }
    for (int chunk = 0; chunk < share.chunks(); ++chunk) {
      const ChunkPlace place = PlaceOfChunk(share, chunk);
      const ContextShare owner{.sequence = 24, .degree = 2, .rank = place.rank, .stripes = 3};
      EXPECT_EQ(owner.Position(place.first), chunk * share.chunk());
    }
  }
  EXPECT_EQ(seen.size(), 24U);
  EXPECT_THAT((ContextShare{.sequence = 24, .degree = 2, .rank = 1, .stripes = 3}).Chunks(),
              ElementsAre(2, 4, 10, 12, 18, 20));
}

TEST(ProcessGrid, GroupsOfAnAxisCoverEveryRankOnce) {
  const ProcessGrid grid(kLayout);
  for (const Axis axis : {Axis::kTensor, Axis::kContext, Axis::kData, Axis::kPipeline}) {
    std::set<std::vector<int>> groups;
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      groups.insert(grid.RanksAlong(axis, rank));
    }
    EXPECT_EQ(static_cast<int>(groups.size()) * grid.Degree(axis), grid.ranks());
  }
}

}  // namespace
}  // namespace trireme
