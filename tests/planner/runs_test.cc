#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.h"
#include "planner/fixtures.h"
#include "planner/validation/measured_runs.h"

namespace trireme {
namespace {

using test::MessageOf;
using test::ShippedFiles;
using test::Source;
using testing::HasSubstr;

constexpr const char* kHeader =
    "id,source,table,cluster,accelerator,gpus,system,layers,hidden,heads,vocab,seq,tp,pp,dp,micro_batch,global_batch,"
    "days_per_100b_tokens\n";
constexpr const char* kRow = "a,s,t,jean-zay,a100-80g,8,megatron-ds-3d,8,1024,8,50257,1024,2,2,2,1,16,10\n";

TEST(MeasuredRuns, SecondsFollowFromDays) {
  const auto runs = ParseRuns(std::string(kHeader) + kRow, "x");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_NEAR(*runs[0].measured_seconds(), 10 * 86400.0 * 16 * 1024 / 100e9, 1e-9);
}

TEST(MeasuredRuns, MistakesNameRecordAndColumn) {
  EXPECT_THAT(MessageOf([] { ParseRuns("", "x"); }), HasSubstr("empty"));
  EXPECT_THAT(MessageOf([] { ParseRuns("id,layers\n", "x"); }), HasSubstr("no column 'hidden'"));
  EXPECT_THAT(MessageOf([] { ParseRuns(std::string(kHeader) + "a,b\n", "x"); }), HasSubstr("record 1 has 2 fields"));
  std::string text = std::string(kHeader) + kRow;
  text.replace(text.find(",8,1024,"), 8, ",8,lots,");
  EXPECT_THAT(MessageOf([&] { ParseRuns(text, "x"); }), HasSubstr("column hidden: 'lots'"));
  EXPECT_THAT(MessageOf([] { ParseRuns("id,\"layers\nno end", "x"); }), HasSubstr("never ends"));
}

TEST(MeasuredRuns, WhatCannotBePricedHasAReason) {
  const PlannerFiles files = ShippedFiles();
  const auto reason = [&](const std::string& from, const std::string& to) {
    std::string row = kRow;
    row.replace(row.find(from), from.size(), to);
    const auto runs = ParseRuns(kHeader + row, "x");
    return Understand(runs[0], files).reason;
  };
  EXPECT_THAT(reason("1024,8,50257", ",8,50257"), HasSubstr("not given: hidden"));
  EXPECT_THAT(reason("2,2,2,1,16", "2,2,4,1,16"), HasSubstr("16 ranks, but 8 gpus"));
  EXPECT_THAT(reason("2,2,2,1,16", "2,2,2,3,16"), HasSubstr("no multiple"));
  EXPECT_THAT(reason("a100-80g", "abacus"), HasSubstr("no cluster file"));
  EXPECT_EQ(reason("megatron-ds-3d", "pen and paper"), "") << "another program stands for one that no file names";
  EXPECT_THAT(reason("1024,8,50257", "1023,8,50257"), HasSubstr("does not divide"));
}

TEST(MeasuredRuns, WhatFollowsFromTheRestNeedNotBeGiven) {
  std::string header = kHeader;
  header.insert(header.find(",days"), ",gradient_accumulation");
  const auto runs =
      ParseRuns(header + "a,s,t,jean-zay,a100-80g,8,megatron-ds-3d,8,1024,8,50257,1024,2,2,,,16,4,10\n", "x");
  const Understood understood = Understand(runs[0], ShippedFiles());
  ASSERT_TRUE(understood.point) << understood.reason;
  EXPECT_EQ(understood.point->config.layout.data, 2);
  EXPECT_EQ(understood.point->config.layout.micro_batch, 2);
}

TEST(MeasuredRuns, AnUnknownMachineTakesOneWithItsAcceleratorButNotItsSite) {
  std::string row = kRow;
  row.replace(row.find("jean-zay"), 8, "my-own");
  const auto runs = ParseRuns(std::string(kHeader) + kRow + row + row, "x");
  const PlannerFiles files = WithAssumedClusters(ShippedFiles(), runs);
  EXPECT_EQ(files.clusters.size(), static_cast<std::size_t>(files.known_clusters) + 1) << "one for both rows";
  EXPECT_FALSE(Understand(runs[0], files).point->assumed_cluster);
  const Understood understood = Understand(runs[1], files);
  ASSERT_TRUE(understood.point) << understood.reason;
  EXPECT_TRUE(understood.point->assumed_cluster);
  const Cluster& cluster = files.clusters[static_cast<std::size_t>(understood.point->cluster)];
  EXPECT_EQ(cluster.name, "dgx-a100") << "a machine that no site claims comes first";
  EXPECT_EQ(cluster.site, "assumed for my-own");
}

TEST(MeasuredRuns, AnUnknownSizeOfAChipTakesAnotherSize) {
  std::string row = kRow;
  row.replace(row.find("jean-zay,a100-80g"), 17, "my-own,A100_96G");
  const auto runs = ParseRuns(std::string(kHeader) + row, "x");
  const PlannerFiles files = WithAssumedClusters(ShippedFiles(), runs);
  const Understood understood = Understand(runs[0], files);
  ASSERT_TRUE(understood.point) << understood.reason;
  EXPECT_EQ(files.clusters[static_cast<std::size_t>(understood.point->cluster)].device.name.substr(0, 4), "A100");
}

TEST(MeasuredRuns, ThePublishedTableIsUnderstood) {
  const auto runs = LoadRuns(Source("tests/planner/published_runs.csv"));
  const PlannerFiles files = WithAssumedClusters(ShippedFiles(), runs);
  EXPECT_EQ(runs.size(), 221U);
  int understood = 0;
  for (const MeasuredRun& run : runs) {
    const Understood one = Understand(run, files);
    understood += one.point ? 1 : 0;
    EXPECT_TRUE(one.point || !one.reason.empty()) << run.id;
    if (run.source == "jean-zay-176b" && one.point) {
      EXPECT_EQ(files.stacks[static_cast<std::size_t>(one.point->stack)].name, "megatron-ds-2022") << run.id;
    }
  }
  EXPECT_EQ(understood, 202);
}

}  // namespace
}  // namespace trireme
