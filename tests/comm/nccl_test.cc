#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/nccl_communicator.h"
#include "comm/rank_runner.h"
#include "device/device.h"

namespace trireme {
namespace {

TEST(Nccl, EveryCollectiveWorksForOneRank) {
  RunThreadRanks(1, {.kind = "cpu"}, [](RankContext& context) {
    const auto gpu = MakeDevice({.kind = "cuda"});
    EXPECT_NO_THROW(ProveNcclAlone(context.world.Split("alone", 0, 0), *gpu));
  });
}

TEST(Nccl, RefusesTwoRanksOfOneGpu) {
  RunThreadRanks(2, {.kind = "cpu"}, [](RankContext& context) {
    const auto gpu = MakeDevice({.kind = "cuda"});
    EXPECT_FALSE(NcclCanConnect(context.world));
  });
}

}  // namespace
}  // namespace trireme
