#include "operate/joint_refusal.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"

namespace trireme {
namespace {

TEST(JointRefusal, OfOneRankIsThatOfAllAndTheLowestSaysWhy) {
  std::vector<JointRefusal> refusals(4);
  RunThreadRanks(4, {.kind = "cpu"}, [&](RankContext& context) {
    const int rank = context.world.rank();
    refusals[static_cast<std::size_t>(rank)] =
        RefusedByAny(context, [&] { Require(rank == 0 || rank == 3, "rank {} has no room", rank); });
  });
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(refusals[rank].refused);
    EXPECT_EQ(refusals[rank].reason, rank == 1 ? "rank 1 has no room" : "");
  }
}

TEST(JointRefusal, NobodyGoesOnBeforeAllHaveChecked) {
  std::atomic<int> checked = 0;
  RunThreadRanks(3, {.kind = "cpu"}, [&](RankContext& context) {
    EXPECT_FALSE(RefusedByAny(context, [&] { ++checked; }).refused);
    EXPECT_EQ(checked, 3);
  });
}

}  // namespace
}  // namespace trireme
