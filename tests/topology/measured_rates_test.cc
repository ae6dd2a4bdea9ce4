#include "topology/measured_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "topology/calibration_file.h"
#include "topology/fixtures.h"

namespace trireme {
namespace {

using test::MessageOf;
using test::ShippedCluster;
using testing::HasSubstr;

RankRates RatesOf(int threads, double scale) {
  RankRates rates{.dtype = DType::kFloat32, .threads = threads};
  for (ProductLaw& law : rates.products) {
    law = {.call = 2e-6, .flops = 1e11 * scale, .operands = 3e9 * scale, .results = 0};
  }
  for (RateLaw& law : rates.works) {
    law = {.call = 1e-6, .rate = 4e9 * scale};
  }
  return rates;
}

GroupRates GroupOf(int ranks, double rate) {
  const RateLaw law{.call = 5e-6, .rate = rate};
  return {.ranks = ranks, .all_reduce = law, .all_gather = law, .reduce_scatter = law, .message = law};
}

MeasuredRates SomeRates() {
  return {.date = "2026-11-16",
          .program = "0.1.0",
          .machine = "4 cores of a test",
          .cores = 4,
          .spread = 0.12,
          .step = 3e-6,
          .slowest = 0.125,
          .slowest_rank = 3,
          .pace = 4e-4,
          .ranks = {RatesOf(1, 1), RatesOf(4, 4)},
          .groups = {GroupOf(2, 8e9), GroupOf(8, 2e9)}};
}

TEST(MeasuredRates, AClusterFileIsReadBackAsItWasWritten) {
  for (const char* name : {"laptop-cpu", "dgx-h200", "jean-zay-a100"}) {
    Cluster cluster = ShippedCluster(name);
    cluster.measured = SomeRates();
    const std::string text = ToToml(cluster, "two\nlines");
    EXPECT_TRUE(text.starts_with("# two\n# lines\n")) << text;
    const Cluster read = ParseCluster(text, "here.toml");
    EXPECT_EQ(ToToml(read, "two\nlines"), text);
    ASSERT_TRUE(read.measured);
    EXPECT_EQ(read.measured->cores, 4);
    EXPECT_DOUBLE_EQ(read.measured->slowest, 0.125);
    EXPECT_EQ(read.measured->slowest_rank, 3);
    EXPECT_DOUBLE_EQ(read.measured->pace, 4e-4);
    EXPECT_DOUBLE_EQ(read.measured->ranks[1][ProductPass::kForward].flops, 4e11);
    EXPECT_DOUBLE_EQ(read.measured->groups[1].all_reduce.rate, 2e9);
    EXPECT_DOUBLE_EQ(read.node_link.bandwidth, cluster.node_link.bandwidth);
    EXPECT_EQ(read.device.is_host, cluster.device.is_host);
  }
}

TEST(MeasuredRates, ALawOfBothSizesAndCalls) {
  const ProductLaw law{.call = 1, .flops = 2, .operands = 4, .results = 8};
  EXPECT_DOUBLE_EQ(law.Seconds(2, 4, 8), 1 + 2.0 * 2 * 4 * 8 / 2 + (16 + 32) / 4.0 + 8 / 8.0);
  EXPECT_DOUBLE_EQ(RateLaw({.call = 2, .rate = 0}).Seconds(100, 3), 6);
}

TEST(MeasuredRates, ThreadsBetweenMeasuredCountsLieBetweenTheirLaws) {
  const MeasuredRates rates = SomeRates();
  EXPECT_DOUBLE_EQ(rates.Rank(DType::kFloat32, 1)->works[0].rate, 4e9);
  EXPECT_NEAR(rates.Rank(DType::kFloat32, 2)->works[0].rate, 8e9, 1);
  EXPECT_DOUBLE_EQ(rates.Rank(DType::kFloat32, 16)->works[0].rate, 16e9);
  EXPECT_FALSE(rates.Rank(DType::kBFloat16, 1));
}

TEST(MeasuredRates, GroupsBeyondTheLargestCostInProportion) {
  const MeasuredRates rates = SomeRates();
  EXPECT_NEAR(rates.Group(DType::kFloat32, 4, 1)->all_reduce.rate, 4e9, 1);
  EXPECT_DOUBLE_EQ(rates.Group(DType::kFloat32, 16, 1)->all_reduce.rate, 1e9);
  EXPECT_DOUBLE_EQ(rates.Group(DType::kFloat32, 16, 1)->all_reduce.call, 1e-5);
  EXPECT_DOUBLE_EQ(rates.Group(DType::kFloat32, 16, 1)->message.rate, 2e9);
  EXPECT_FALSE(rates.Group(DType::kFloat32, 2, 2)) << "no group across nodes was measured";
}

TEST(MeasuredRates, MistakesInAFileAreNamed) {
  Cluster cluster = ShippedCluster("laptop-cpu");
  cluster.measured = SomeRates();
  std::string text = ToToml(cluster, "");
  const std::size_t at = text.find("norm = { call_us");
  text.replace(at, 4, "nrom");
  EXPECT_THAT(MessageOf([&] { ParseCluster(text, "here.toml"); }), HasSubstr("nrom"));
  cluster.measured->ranks.clear();
  EXPECT_THAT(MessageOf([&] { ParseCluster(ToToml(cluster, ""), "here.toml"); }), HasSubstr("trireme calibrate"));
}

TEST(CalibrationFile, LiesInTheConfigurationFolderUnderTheMachinesName) {
  setenv("XDG_CONFIG_HOME", "/config", 1);
  EXPECT_EQ(CalibrationPath("2 cores of Intel(R) Xeon(R)"), "/config/trireme/2-cores-of-intel-r-xeon-r.toml");
  unsetenv("XDG_CONFIG_HOME");
  const char* const home = getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(CalibrationPath("8 x NVIDIA H200"), "/home/someone/.config/trireme/8-x-nvidia-h200.toml");
  unsetenv("HOME");
  EXPECT_EQ(CalibrationPath("anything"), "");
  setenv("HOME", before.c_str(), 1);
}

TEST(CalibrationFile, IsFoundUntilItIsDeleted) {
  std::string folder = (std::filesystem::temp_directory_path() / "trireme-calibration-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_FALSE(LoadCalibration("a machine", folder));
  Cluster cluster = ShippedCluster("laptop-cpu");
  cluster.measured = SomeRates();
  const std::string path = CalibrationPath("a machine", folder);
  std::ofstream(path) << ToToml(cluster, "");
  ASSERT_TRUE(LoadCalibration("a machine", folder));
  EXPECT_EQ(LoadCalibration("a machine", folder)->measured->date, "2026-11-16");
  EXPECT_FALSE(LoadCalibration("another machine", folder));
  std::ofstream(path) << "name = ";
  EXPECT_THAT(MessageOf([&] { LoadCalibration("a machine", folder); }), HasSubstr("or delete " + path));
  std::filesystem::remove(path);
  EXPECT_FALSE(LoadCalibration("a machine", folder));
  std::filesystem::remove_all(folder);
}

TEST(Cluster, IsFoundByTheNameOfItsDevice) {
  const std::vector<Cluster> clusters = LoadClusters(test::Source("clusters"));
  EXPECT_EQ(ClosestByDevice(clusters, "8 x NVIDIA H200")->name, "dgx-h200");
  EXPECT_EQ(ClosestByDevice(clusters, "cpu")->name, "laptop-cpu");
  EXPECT_FALSE(ClosestByDevice(clusters, "1 x NVIDIA GeForce 9999"));
}

}  // namespace
}  // namespace trireme
