#include "measure/brief_probe.h"

#include <gtest/gtest.h>

#include "device/cpu_double.h"
#include "device/host_memory.h"
#include "measure/all_ranks.h"
#include "measure/calibrate.h"
#include "measure/no_devices.h"
#include "measure/rank_probe.h"

namespace trireme {
namespace {

using test::WithoutFurtherDevices;

// Laws that rank 0 gets in a world of `ranks` ranks with one thread each.
std::optional<RankRates> ProbedBy(int ranks, DType dtype) {
  std::optional<RankRates> found;
  RunThreadRanks(ranks, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    const std::optional<BriefProbe> probe = ProbeBriefly(context, dtype);
    if (context.world.rank() == 0 && probe) {
      EXPECT_GE(probe->waited, 0);
      EXPECT_LT(probe->waited, 1);
      found = probe->rates;
    }
  });
  return found;
}

TEST(BriefProbe, EveryLawCostsMoreForMoreWork) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::optional<RankRates> rates = ProbedBy(3, dtype);
    ASSERT_TRUE(rates);
    EXPECT_EQ(rates->dtype, dtype);
    EXPECT_EQ(rates->threads, 1);
    for (const ProductLaw& law : rates->products) {
      EXPECT_GT(law.Seconds(256, 256, 256), 0);
      EXPECT_GT(law.Seconds(2048, 2048, 2048), law.Seconds(256, 256, 256));
    }
    for (const RateLaw& law : rates->works) {
      EXPECT_GT(law.Seconds(1e6), 0);
      EXPECT_GT(law.Seconds(1e8), law.Seconds(1e6));
    }
  }
}

// A machine so busy that each call seems to take a second.
class BusyCpu : public CpuDouble {
 public:
  double Now() const override { return ++seconds_; }

 private:
  mutable double seconds_ = 0;
};

TEST(BriefProbe, OfWhatIsLateTheLargerSizeCounts) {
  RunThreadRanks(1, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    BusyCpu busy;
    RankContext late{.device = busy, .world = context.world};
    const RankRates rates = MeasureRank(late, DType::kFloat32, {.brief = true}).rates;
    const auto flops = static_cast<double>(AttentionForwardFlops(1, 256, 4, 64));
    EXPECT_DOUBLE_EQ(rates[RankWork::kAttentionForward].Seconds(flops), 1);
    EXPECT_DOUBLE_EQ(rates[RankWork::kNormForward].Seconds(512 * 768), 1);
  });
}

TEST(BriefProbe, Fp16HasTheLawsOfItsPanels) {
  const std::optional<RankRates> rates = ProbedBy(1, DType::kFloat16);
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->dtype, DType::kFloat32);
}

TEST(BriefProbe, OneThatFailsGivesNoLawsAndTheRunGoesOn) {
  std::vector<double> gathered;
  RunThreadRanks(2, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    WithoutFurtherDevices(context, [&] { EXPECT_FALSE(ProbeBriefly(context, DType::kFloat32)); });
    const std::vector<double> numbers = NumbersOfRanks(context, context.world.rank() + 1);
    if (context.world.rank() == 0) {
      gathered = numbers;
    }
  });
  EXPECT_EQ(gathered, (std::vector<double>{1, 2}));
}

TEST(BriefProbe, TheMachineAtHandHasItsOwnCoresAndTheLinksOfThePrior) {
  Cluster prior{.name = "laptop", .nodes = 1, .devices_per_node = 4};
  prior.device_link = {.latency = 5e-6, .bandwidth = 5e9};
  const RankRates rates{.dtype = DType::kBFloat16, .threads = 2};
  const Cluster here = WithMeasuredRates(prior, {.rates = rates}, 3);
  EXPECT_EQ(here.name, "laptop");
  EXPECT_EQ(here.nodes, 3);
  EXPECT_EQ(here.devices_per_node, JobCores());
  EXPECT_EQ(here.device.name, MachineName("cpu"));
  EXPECT_EQ(here.host_memory, static_cast<double>(HostMemoryBytes()));
  EXPECT_EQ(here.device_link.bandwidth, 5e9);
  ASSERT_TRUE(here.measured);
  EXPECT_EQ(here.measured->cores, JobCores());
  EXPECT_TRUE(here.measured->Rank(DType::kBFloat16, 2));
  EXPECT_TRUE(here.measured->groups.empty());
  EXPECT_GT(here.measured->spread, 0.5) << "an undisturbed calibration's is at most that";
}

TEST(BriefProbe, ABusyMachineIsPredictedSlowerAndLessSurely) {
  BriefProbe probe{.rates = {.dtype = DType::kFloat32, .threads = 1}, .waited = 0.05};
  for (RateLaw& law : probe.rates.works) {
    law = {.call = 1e-6, .rate = 1e9};
  }
  const MeasuredRates alone = *WithMeasuredRates(Cluster{}, probe, 1).measured;
  probe.waited = 0.5;
  const MeasuredRates busy = *WithMeasuredRates(Cluster{}, probe, 1).measured;
  const auto seconds = [](const MeasuredRates& rates) { return rates.ranks[0][RankWork::kFill].Seconds(1e6); };
  // The lower end is that of the quiet machine, for the load may end; the upper one that of half of the cores.
  EXPECT_DOUBLE_EQ(seconds(busy) / (1 + busy.spread), seconds(alone) / (1 + alone.spread));
  EXPECT_DOUBLE_EQ(seconds(busy) * (1 + busy.spread), 2 * seconds(alone) * (1 + alone.spread));
  EXPECT_EQ(busy.others, 0.5);
  EXPECT_EQ(alone.others, 0) << "what timers and kernel threads take is no load";
}

}  // namespace
}  // namespace trireme
