#include "comm/paced_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "device/paced_prices_stub.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The clocks of all ranks after `body`.
std::vector<double> ClocksAfter(int ranks, const std::function<void(RankContext&)>& body) {
  std::vector<double> clocks(static_cast<std::size_t>(ranks));
  const DeviceOptions options{.kind = "paced", .paced = std::make_shared<RoundPrices>()};
  RunThreadRanks(ranks, options, [&](RankContext& context) {
    body(context);
    clocks[static_cast<std::size_t>(context.world.rank())] = context.device.Now();
  });
  return clocks;
}

Tensor Kilobyte(Device& device) { return {device.Allocate(1000), DType::kFloat32, {250}}; }

TEST(PacedCommunicator, ACollectiveBeginsWithTheLastAndTakesItsTime) {
  const auto clocks = ClocksAfter(4, [](RankContext& context) {
    context.device.Pause(context.world.rank());
    context.world.AllReduce(Kilobyte(context.device));
  });
  EXPECT_THAT(clocks, ElementsAre(7, 7, 7, 7));  // 3 of the last rank, 4 of the collective
}

TEST(PacedCommunicator, ACollectiveOnAnotherStreamOverlaps) {
  const auto clocks = ClocksAfter(2, [](RankContext& context) {
    const Tensor t = Kilobyte(context.device);
    context.device.OnStream(kCollectiveStream, context.device.RecordEvent(), [&] { context.world.AllReduce(t); });
    context.device.ops().Fill(t, 0);
  });
  EXPECT_THAT(clocks, ElementsAre(1, 1));
}

TEST(PacedCommunicator, AMessageOccupiesTheRouteAndDelaysItsReceiverAlone) {
  const auto clocks = ClocksAfter(3, [](RankContext& context) {
    const Tensor t = Kilobyte(context.device);
    if (context.world.rank() == 0) {
      context.world.Send(t, 1, 0);
      context.world.Send(t, 1, 1);
      context.world.Send(t, 2, 0);  // another route, to another node
    } else if (context.world.rank() == 1) {
      context.world.Receive(t, 0, 1);
    } else {
      context.world.Receive(t, 0, 0);
    }
  });
  EXPECT_THAT(clocks, ElementsAre(0, 2, 10));
}

TEST(PacedCommunicator, ABarrierBringsHostsTogether) {
  const auto clocks = ClocksAfter(3, [](RankContext& context) {
    context.device.Pause(context.world.rank());
    context.device.SynchronizeEvent(context.device.RecordEvent());
    context.world.Barrier();
  });
  EXPECT_THAT(clocks, ElementsAre(2, 2, 2));
}

TEST(PacedCommunicator, ExchangesNumbers) {
  ClocksAfter(4, [](RankContext& context) {
    auto group = context.world.Split("pairs", context.world.rank() / 2, context.world.rank());
    const Tensor t{context.device.Allocate(8), DType::kFloat32, {2}};
    const std::array<float, 2> mine = {1.0F + static_cast<float>(context.world.rank()), 0.5F};
    context.device.CopyFromHost(t.data, mine.data(), sizeof(mine));
    group->AllReduce(t);
    std::array<float, 2> sum{};
    context.device.CopyToHost(sum.data(), t.data, sizeof(sum));
    EXPECT_EQ(sum[0], context.world.rank() < 2 ? 3 : 7);
    EXPECT_EQ(sum[1], 1);
    EXPECT_EQ(group->traffic().calls[static_cast<std::size_t>(CollectiveKind::kAllReduce)], 1);
  });
}

TEST(PacedCommunicator, RefusesCallsThatDiffer) {
  try {
    ClocksAfter(2, [](RankContext& context) {
      const Tensor t = Kilobyte(context.device);
      if (context.world.rank() == 0) {
        context.world.AllReduce(t);
      } else {
        context.world.Broadcast(t, 0);
      }
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("all_reduce of 250 fp32"));
    EXPECT_THAT(error.what(), HasSubstr("broadcast"));
  }
}

TEST(PacedCommunicator, AFailureEndsEveryRank) {
  try {
    ClocksAfter(3, [](RankContext& context) {
      Require(context.world.rank() != 2, "no space left in tank {}", 7);
      context.world.AllReduce(Kilobyte(context.device));
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 2: no space left in tank 7");
  }
}

}  // namespace
}  // namespace trireme
