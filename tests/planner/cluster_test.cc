#include "topology/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/fixtures.h"
#include "planner/fixtures_message.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::trireme::testing::MessageOf;
using ::trireme::testing::Source;

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
