#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "topology/layout.h"

namespace trireme {
namespace {

using testing::ElementsAre;

const ParallelLayout kLayout{.tensor = 2, .sequence = 3, .pipeline = 2, .data = 4};

TEST(ProcessGrid, TensorAxisIsInnermostAndPipelineOutermost) {
  const ProcessGrid grid(kLayout);
  EXPECT_EQ(grid.CoordinateOf(0), (Coordinate{}));
  EXPECT_EQ(grid.CoordinateOf(1), (Coordinate{.tensor = 1}));
  EXPECT_EQ(grid.CoordinateOf(2), (Coordinate{.sequence = 1}));
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
  EXPECT_THAT(grid.RanksAlong(Axis::kSequence, 7), ElementsAre(7, 9, 11));
  EXPECT_THAT(grid.RanksAlong(Axis::kData, 7), ElementsAre(1, 7, 13, 19));
  EXPECT_THAT(grid.RanksAlong(Axis::kPipeline, 7), ElementsAre(7, 31));
}

TEST(ProcessGrid, GroupsOfAnAxisCoverEveryRankOnce) {
  const ProcessGrid grid(kLayout);
  for (const Axis axis : {Axis::kTensor, Axis::kSequence, Axis::kData, Axis::kPipeline}) {
    std::set<std::vector<int>> groups;
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      groups.insert(grid.RanksAlong(axis, rank));
    }
    EXPECT_EQ(static_cast<int>(groups.size()) * grid.Degree(axis), grid.ranks());
  }
}

}  // namespace
}  // namespace trireme
