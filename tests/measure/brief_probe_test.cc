#include "measure/brief_probe.h"

#include <gtest/gtest.h>

#include "device/host_memory.h"
#include "measure/all_ranks.h"
#include "measure/calibrate.h"

namespace trireme {
namespace {

// Laws that the first of three ranks gets, and what the others do.
RankRates ProbedBy(int ranks, DType dtype) {
  RankRates found;
  RunThreadRanks(ranks, {.kind = "cpu", .threads = 1}, [&](RankContext& context) {
    const RankRates rates = ProbeBriefly(context, {.kind = "cpu"}, dtype);
    if (context.world.rank() == 0) {
      found = rates;
    }
  });
  return found;
}

TEST(BriefProbe, EveryLawCostsMoreForMoreWork) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const RankRates rates = ProbedBy(3, dtype);
    EXPECT_EQ(rates.dtype, dtype);
    EXPECT_EQ(rates.threads, 1);
    for (const ProductLaw& law : rates.products) {
      EXPECT_GT(law.Seconds(256, 256, 256), 0);
      EXPECT_GT(law.Seconds(2048, 2048, 2048), law.Seconds(256, 256, 256));
    }
    for (const RateLaw& law : rates.works) {
      EXPECT_GT(law.Seconds(1e6), 0);
    }
  }
}

TEST(BriefProbe, Fp16HasTheLawsOfItsPanels) { EXPECT_EQ(ProbedBy(1, DType::kFloat16).dtype, DType::kFloat32); }

TEST(BriefProbe, TheMachineAtHandHasItsOwnCoresAndTheLinksOfThePrior) {
  Cluster prior{.name = "laptop", .nodes = 1, .devices_per_node = 4};
  prior.device_link = {.latency = 5e-6, .bandwidth = 5e9};
  const RankRates rates{.dtype = DType::kBFloat16, .threads = 2};
  const Cluster here = AtHand(prior, rates, 3);
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
  EXPECT_GT(here.measured->spread, 0.5) << "a calibration's is at most that";
}

}  // namespace
}  // namespace trireme
