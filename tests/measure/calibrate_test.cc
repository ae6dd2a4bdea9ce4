#include "measure/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "measure/all_ranks.h"
#include "measure/group_probe.h"
#include "measure/no_devices.h"
#include "measure/pace.h"
#include "message_of.h"

namespace trireme {
namespace {

using test::MessageOf;
using test::WithoutFurtherDevices;
using testing::HasSubstr;

TEST(Calibrate, MeasuresEveryLawOfThisMachine) {
  std::vector<double> told;
  const std::optional<Cluster> cluster =
      Calibrate({.quick = true,
                 .device = "cpu",
                 .disk_folder = testing::TempDir(),
                 .progress = [&](double done, const std::string&) { told.push_back(done); }});
  ASSERT_TRUE(cluster && cluster->measured);
  const MeasuredRates& measured = *cluster->measured;
  EXPECT_EQ(measured.machine, MachineName("cpu"));
  EXPECT_GE(measured.cores, 1);
  std::set<DType> types;
  for (const RankRates& rates : measured.ranks) {
    types.insert(rates.dtype);
    for (const ProductLaw& law : rates.products) {
      EXPECT_GT(law.Seconds(256, 256, 256), 0);
    }
    for (const RateLaw& law : rates.works) {
      EXPECT_GT(law.Seconds(1e6), 0);
    }
  }
  EXPECT_EQ(types, (std::set<DType>{DType::kFloat32, DType::kBFloat16}));
  std::set<int> sizes;
  for (const GroupRates& group : measured.groups) {
    sizes.insert(group.ranks);
    EXPECT_GT(group.all_reduce.Seconds(1e6), 0);
    EXPECT_GT(group.message.Seconds(1e6), 0);
  }
  EXPECT_EQ(sizes, (std::set<int>{2, 4}));
  EXPECT_GT(measured.pace, 0);
  EXPECT_GT(cluster->device.memory_bandwidth, 0);
  EXPECT_GT(cluster->nvme_bandwidth, 0);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_GE(told.size(), 10U);
  EXPECT_EQ(ParseCluster(ToToml(*cluster, ""), "here").measured->ranks.size(), measured.ranks.size());
}

TEST(Calibrate, RefusesWhatItCannotMeasure) {
  EXPECT_THAT(MessageOf([] { Calibrate({.quick = true, .device = "tpu"}); }), HasSubstr("tpu"));
  EXPECT_THAT(MessageOf([] { Calibrate({.quick = true, .device = "cpu", .disk_folder = "/nowhere"}); }),
              HasSubstr("--disk '/nowhere'"));
}

TEST(AllRanks, KnowEachOthersNumbers) {
  RunThreadRanks(3, {.kind = "cpu"}, [](RankContext& context) {
    EXPECT_THAT(NumbersOfRanks(context, 1.5 * context.world.rank()), testing::ElementsAre(0, 1.5, 3));
  });
}

TEST(AllRanks, TheSlowestCounts) {
  const RankSpeeds speeds = CompareRanks({2, 1.6, 3});
  EXPECT_EQ(speeds.slowest, 2);
  EXPECT_DOUBLE_EQ(speeds.behind_first, 1.5);
  EXPECT_DOUBLE_EQ(speeds.behind_fastest, 0.875);
  RankRates rates;
  rates[ProductPass::kForward] = {.call = 1e-6, .flops = 1e9, .operands = 1e8};
  rates[RankWork::kLoss] = {.call = 2e-6, .rate = 1e7};
  const RankRates slowed = Slowed(rates, 1.5);
  EXPECT_DOUBLE_EQ(slowed[ProductPass::kForward].Seconds(64, 64, 64),
                   1.5 * rates[ProductPass::kForward].Seconds(64, 64, 64));
  EXPECT_DOUBLE_EQ(slowed[RankWork::kLoss].Seconds(1e6), 1.5 * rates[RankWork::kLoss].Seconds(1e6));
}

TEST(AllRanks, TheSlowestMachineCountsByItsMean) {
  EXPECT_DOUBLE_EQ(SlowestMachine({1, 3, 2.5, 1.4}, {0, 0, 1, 1}), 2);
  EXPECT_DOUBLE_EQ(SlowestMachine({1, 3, 2.5, 1.4}, {0, 1, 2, 0}), 3);
  EXPECT_DOUBLE_EQ(SlowestMachine({0.5}, {0}), 0.5);
}

TEST(AllRanks, RanksThatWereNotAskedDoNotCount) {
  EXPECT_DOUBLE_EQ(SlowestMachine({2, kIdleRank, 1.5, kIdleRank, kIdleRank}, {0, 0, 1, 1, 1}), 2);
}

TEST(AllRanks, OneFailedMeasurementLeavesNoFigure) {
  EXPECT_EQ(SlowestMachine({2, 0, 1.5, kIdleRank}, {0, 0, 1, 1}), 0);
}

TEST(AllRanks, AsManyWorkAtOnceAsHaveCores) {
  const int cores = JobCores();
  for (const int threads : {1, cores, 2 * cores}) {
    RunThreadRanks(1, {.kind = "cpu", .threads = threads},
                   [&](RankContext& context) { EXPECT_EQ(RanksAtOnce(context), threads == 1 ? cores : 1); });
  }
}

TEST(Pace, IsTheSameNumberOnEveryRank) {
  std::vector<double> paces(3);
  RunThreadRanks(3, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    paces[static_cast<std::size_t>(context.world.rank())] = MeasurePace(context).seconds;
  });
  EXPECT_GT(paces[0], 0);
  EXPECT_EQ(paces[1], paces[0]);
  EXPECT_EQ(paces[2], paces[0]);
}

TEST(Pace, IsNoneOnEveryRankWhereItCannotBeMeasured) {
  std::vector<double> paces(3, 1);
  RunThreadRanks(3, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    WithoutFurtherDevices(
        context, [&] { paces[static_cast<std::size_t>(context.world.rank())] = MeasurePace(context).seconds; });
  });
  EXPECT_EQ(paces, std::vector<double>(3, 0));
}

TEST(Pace, ScalesWhatWasCalibrated) {
  MeasuredRates measured{.pace = 1e-3};
  measured.ranks.emplace_back()[RankWork::kLoss] = {.call = 1e-6, .rate = 1e9};
  measured.groups.push_back({.all_reduce = {.call = 2e-6, .rate = 1e9}});
  EXPECT_EQ(PaceRatio(measured, 1.02e-3), 1) << "as it repeats";
  EXPECT_DOUBLE_EQ(PaceRatio(measured, 1.2e-3), 1.2);
  EXPECT_EQ(PaceRatio(measured, 1), 2) << "no more than half of the speed";
  EXPECT_EQ(PaceRatio(MeasuredRates{}, 1e-3), 1) << "a calibration without a pace";
  EXPECT_EQ(PaceRatio(measured, 0), 1) << "not measured now";
  const MeasuredRates slower = AtPace(measured, 1.2);
  EXPECT_DOUBLE_EQ(slower.ranks[0][RankWork::kLoss].Seconds(1e6),
                   1.2 * measured.ranks[0][RankWork::kLoss].Seconds(1e6));
  EXPECT_DOUBLE_EQ(slower.groups[0].all_reduce.Seconds(1e6), 1.2 * measured.groups[0].all_reduce.Seconds(1e6));
  const Pace now = MeasurePace();
  EXPECT_GT(now.seconds, 0);
  EXPECT_GE(now.waited, 0);
  EXPECT_LT(now.waited, 1);
}

TEST(GroupProbe, ThreadsOfOneProcessAreOnOneNode) {
  RunThreadRanks(3, {.kind = "cpu"}, [](RankContext& context) {
    const RankPlace place = PlaceOf(context);
    EXPECT_EQ(place.nodes, 1);
    EXPECT_EQ(place.local, context.world.rank());
    EXPECT_EQ(place.local_ranks, 3);
  });
}

}  // namespace
}  // namespace trireme
