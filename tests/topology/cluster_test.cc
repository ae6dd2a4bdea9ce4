#include "topology/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "topology/fixtures.h"

namespace trireme {
namespace {

using test::MessageOf;
using test::Source;
using testing::HasSubstr;

constexpr const char* kTwoNodes = R"(
name = "pair"
nodes = 2
devices_per_node = 2
[device]
name = "d"
memory_gib = 1
memory_bandwidth_gbs = 100
peak_tflops = { fp32 = 1, bf16 = 2 }
[links.device]
latency_us = 1
bandwidth_gbs = 10
[links.node]
latency_us = 5
bandwidth_gbs = 2
cards = 2
[links.host]
latency_us = 1
bandwidth_gbs = 8
[host]
memory_gib = 16
bandwidth_gbs = 20
)";

std::string Without(std::string text, const std::string& part) { return text.erase(text.find(part), part.size()); }

TEST(Cluster, ReadsUnitsAsBytesAndSeconds) {
  const Cluster cluster = ParseCluster(kTwoNodes, "pair.toml");
  EXPECT_EQ(cluster.devices(), 4);
  EXPECT_DOUBLE_EQ(cluster.device.memory, 1024.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(cluster.node_bandwidth(), 4e9);
  EXPECT_DOUBLE_EQ(cluster.node_link.latency, 5e-6);
  EXPECT_DOUBLE_EQ(cluster.device.Peak(DType::kBFloat16), 2e12);
  EXPECT_DOUBLE_EQ(cluster.device.Peak(DType::kFloat32), 1e12);
  EXPECT_EQ(cluster.site, "pair");
  EXPECT_EQ(cluster.cards_per_ring, 2);
}

TEST(Cluster, WhatAChipSustainsDependsOnTheFormat) {
  const std::string peaks = "peak_tflops = { fp32 = 1, bf16 = 2 }";
  std::string text = kTwoNodes;
  text.replace(text.find(peaks), peaks.size(),
               "sustained = { bf16 = 0.8, fp8 = 0.7 }\npeak_tflops = { fp32 = 1, bf16 = 2, fp8 = 4, fp4 = 8 }");
  const auto expect = [](const DeviceSpec& device) {
    EXPECT_DOUBLE_EQ(device.Peak(DType::kBFloat16), 1.6e12);
    EXPECT_DOUBLE_EQ(device.Peak(ProductFormat::kMxFloat8, DType::kBFloat16), 2.8e12);
    EXPECT_DOUBLE_EQ(device.Peak(ProductFormat::kNvFloat4, DType::kBFloat16), 5.6e12) << "as fp8";
  };
  const Cluster cluster = ParseCluster(text, "pair.toml");
  expect(cluster.device);
  expect(ParseCluster(ToToml(cluster, ""), "again.toml").device);
  text.replace(text.find("sustained = { bf16 = 0.8, fp8 = 0.7 }"), 37, "sustained = 0.5");
  EXPECT_DOUBLE_EQ(ParseCluster(text, "pair.toml").device.Peak(ProductFormat::kFloat8, DType::kBFloat16), 2e12);
}

TEST(Cluster, AContextFollowsFromTheUnitsUnlessItIsTold) {
  const auto context = [](const std::string& lines) {
    std::string text = kTwoNodes;
    text.insert(text.find("memory_gib = 1\n"), lines);
    const Cluster cluster = ParseCluster(text, "c.toml");
    EXPECT_EQ(ParseCluster(ToToml(cluster, ""), "again.toml").device.context, cluster.device.context);
    return cluster.device.context / 1024 / 1024;
  };
  EXPECT_EQ(context("units = 132\n"), 396);
  EXPECT_EQ(context(""), 324) << "as an A100 where the units are not known";
  EXPECT_EQ(context("units = 110\napi = \"hip\"\n"), 324);
  EXPECT_EQ(context("units = 132\ncontext_mib = 500\n"), 500);
}

TEST(Cluster, TheSystemKeepsAPartOfHostMemory) {
  const auto cluster = [](const std::string& lines) {
    std::string text = kTwoNodes;
    text.insert(text.find("memory_gib = 16\n"), lines);
    return ParseCluster(text, "c.toml");
  };
  const double whole = cluster("").host_memory;
  EXPECT_DOUBLE_EQ(cluster("").job_memory(), 0.92 * whole);
  const Cluster half = cluster("system_share = 0.5\n");
  EXPECT_DOUBLE_EQ(half.job_memory(), 0.5 * whole);
  EXPECT_EQ(ParseCluster(ToToml(half, ""), "again.toml").job_memory(), half.job_memory());
  EXPECT_THAT(MessageOf([&] { cluster("system_share = 1\n"); }), HasSubstr("host.system_share = 1 must be a share"));
  Cluster host = half;
  host.device.is_host = true;
  EXPECT_EQ(host.job_memory(), whole) << "the device's memory says it";
}

TEST(Cluster, EveryShippedFileLoads) {
  const std::vector<Cluster> clusters = LoadClusters(Source("clusters"));
  EXPECT_GE(clusters.size(), 11U);
  for (const Cluster& cluster : clusters) {
    EXPECT_GT(cluster.devices(), 0) << cluster.name;
    EXPECT_FALSE(cluster.runs.accelerators.empty()) << cluster.name;
  }
}

TEST(Cluster, SeveralNodesNeedANodeLink) {
  const std::string text = Without(kTwoNodes, "[links.node]\nlatency_us = 5\nbandwidth_gbs = 2\ncards = 2\n");
  EXPECT_THAT(MessageOf([&] { ParseCluster(text, "pair.toml"); }), HasSubstr("lacks the link [links.node]"));
}

TEST(Cluster, SeveralDevicesNeedADeviceLinkAndEveryOneAHostLink) {
  const std::string no_device = Without(kTwoNodes, "[links.device]\nlatency_us = 1\nbandwidth_gbs = 10\n");
  EXPECT_THAT(MessageOf([&] { ParseCluster(no_device, "pair.toml"); }), HasSubstr("lacks the link [links.device]"));
  const std::string no_host = Without(kTwoNodes, "[links.host]\nlatency_us = 1\nbandwidth_gbs = 8\n");
  EXPECT_EQ(MessageOf([&] { ParseCluster(no_host, "pair.toml"); }),
            "pair.toml lacks the link [links.host], which joins a device and its host: give latency_us and "
            "bandwidth_gbs");
  const std::string no_bandwidth = Without(kTwoNodes, "bandwidth_gbs = 2\n");
  EXPECT_THAT(MessageOf([&] { ParseCluster(no_bandwidth, "pair.toml"); }),
              HasSubstr("lacks 'links.node.bandwidth_gbs'"));
}

TEST(Cluster, ALinkWithoutSpeedIsRefused) {
  std::string text = kTwoNodes;
  text.replace(text.find("bandwidth_gbs = 10\n"), 19, "bandwidth_gbs = 0\n");
  EXPECT_THAT(MessageOf([&] { ParseCluster(text, "pair.toml"); }),
              HasSubstr("'links.device.bandwidth_gbs' = 0 must be above 0"));
}

TEST(Cluster, OneDeviceNeedsNoLinkToOthers) {
  std::string text = Without(kTwoNodes, "[links.node]\nlatency_us = 5\nbandwidth_gbs = 2\ncards = 2\n");
  text = Without(text, "[links.device]\nlatency_us = 1\nbandwidth_gbs = 10\n");
  text.replace(text.find("nodes = 2"), 9, "nodes = 1");
  text.replace(text.find("devices_per_node = 2"), 20, "devices_per_node = 1");
  EXPECT_EQ(ParseCluster(text, "one.toml").devices(), 1);
}

TEST(Cluster, AnUnknownKeyNamesItsLineAndTheNearest) {
  const std::string message =
      MessageOf([] { ParseCluster(std::string(kTwoNodes) + "bandwidth_gsb = 3\n", "pair.toml"); });
  EXPECT_THAT(message, HasSubstr("pair.toml, line"));
  EXPECT_THAT(message, HasSubstr("did you mean 'host.bandwidth_gbs'?"));
}

TEST(Cluster, ValuesOutOfRangeAreRefused) {
  EXPECT_THAT(MessageOf([] { ParseCluster("name = \"x\"\nnodes = 0\n", "x.toml"); }), HasSubstr("'nodes' = 0"));
  EXPECT_THAT(MessageOf([] { ParseCluster("name = 3\n", "x.toml"); }), HasSubstr("'name' must be a text"));
  EXPECT_THAT(MessageOf([] { ParseCluster("name = \"x\"", "x.toml"); }), HasSubstr("x.toml lacks 'nodes'"));
  EXPECT_THAT(MessageOf([] { ParseCluster("name = ", "x.toml"); }), HasSubstr("x.toml, line 1"));
}

TEST(Cluster, AnUnknownNameListsTheKnownOnes) {
  const std::string message = MessageOf([] { LoadCluster("dgx-h10", Source("clusters")); });
  EXPECT_THAT(message, HasSubstr("did you mean 'dgx-h100'?"));
  EXPECT_THAT(message, HasSubstr("perlmutter"));
}

}  // namespace
}  // namespace trireme
