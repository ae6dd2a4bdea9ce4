#include "planner/pricing/collective_time.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trireme {
namespace {

// A group of `size` ranks that lie `stride` apart.
GroupPlacement PlaceGroup(int node, int stride, int size) {
  if (size * stride <= node && node % (size * stride) == 0) {
    return {.size = size, .per_node = size, .sharing = std::max(1, node / size)};
  }
  // Where groups do not end with a node, some lie across two: half of a group stays on one node.
  const int most = std::clamp(node / stride, 1, size);
  const bool aligned = node % (stride * most) == 0 && size % most == 0;
  const int per_node = aligned || most == 1 ? std::min(most, size) : std::max(1, std::min(most, size / 2));
  return {.size = size, .per_node = per_node, .sharing = std::max(1, node / per_node)};
}

// NCCL's protocols: flags sent with the data cost bandwidth and save waiting. Latencies are in units of the link's own.
struct Protocol {
  double base;  // seconds before anything moves
  double device_hop;
  double node_hop;
  double bandwidth;  // share
};
constexpr Protocol kProtocols[] = {
    {.base = 6.6e-6, .device_hop = 0.2, .node_hop = 0.55, .bandwidth = 0.25},
    {.base = 14.0e-6, .device_hop = 0.6, .node_hop = 0.8, .bandwidth = 0.8},
    {.base = 8.4e-6, .device_hop = 1.1, .node_hop = 2.0, .bandwidth = 1.0},
};
constexpr double kTreeBandwidth = 0.9;

}  // namespace

GroupPlacement PlaceTensor(const Cluster& cluster, const ParallelLayout& layout) {
  return PlaceGroup(cluster.devices_per_node, 1, layout.tensor);
}

GroupPlacement PlaceContext(const Cluster& cluster, const ParallelLayout& layout) {
  return PlaceGroup(cluster.devices_per_node, layout.tensor, layout.context);
}

std::vector<ContextTraffic> PlaceContextTraffic(const Cluster& cluster, const ParallelLayout& layout, int head_ranks,
                                                const Traffic& traffic) {
  if (head_ranks <= 1 || head_ranks >= layout.context) {
    return {{traffic, PlaceContext(cluster, layout)}};
  }
  constexpr auto kSwap = static_cast<std::size_t>(CollectiveKind::kAllToAll);
  ContextTraffic within{{}, PlaceGroup(cluster.devices_per_node, layout.tensor, head_ranks)};
  ContextTraffic across{traffic,
                        PlaceGroup(cluster.devices_per_node, layout.tensor * head_ranks, layout.context / head_ranks)};
  std::swap(within.traffic.calls[kSwap], across.traffic.calls[kSwap]);
  std::swap(within.traffic.bytes[kSwap], across.traffic.bytes[kSwap]);
  return {within, across};
}

GroupPlacement PlaceData(const Cluster& cluster, const ParallelLayout& layout) {
  return PlaceGroup(cluster.devices_per_node, layout.tensor, layout.context * layout.data);
}

GroupPlacement PlaceShards(const Cluster& cluster, const ParallelLayout& layout, int ranks) {
  return PlaceGroup(cluster.devices_per_node, layout.tensor, ranks);
}

GroupPlacement PlaceExperts(const Cluster& cluster, const ParallelLayout& layout) {
  const int width = layout.expert_width_ranks();
  const bool fits = layout.expert * width <= cluster.devices_per_node;
  return fits ? GroupPlacement{.size = layout.expert, .per_node = layout.expert, .sharing = width}
              : PlaceGroup(cluster.devices_per_node, width, layout.expert);
}

GroupPlacement PlaceExpertReplicas(const Cluster& cluster, const ParallelLayout& layout) {
  return PlaceGroup(cluster.devices_per_node, layout.expert * layout.expert_width_ranks(), layout.expert_replicas());
}

double ExchangeSeconds(double within, double across, const GroupPlacement& group, const Cluster& cluster,
                       const LinkShares& shares) {
  constexpr double kStart = 12e-6;  // NCCL's grouped send and receive
  const double local = within / (cluster.device_link.bandwidth * shares.device);
  if (!group.crosses_nodes()) {
    return kStart + cluster.device_link.latency + local;
  }
  const double card = cluster.node_bandwidth() / cluster.devices_per_node * shares.node;
  // Messages to several nodes pass a card one after another.
  const double latency = cluster.node_link.latency * shares.latency * std::sqrt(static_cast<double>(group.nodes()));
  return kStart + latency + std::max(local, across / card);
}

bool StagesCrossNodes(const Cluster& cluster, const ParallelLayout& layout) {
  return layout.pipeline > 1 && layout.ranks() > cluster.devices_per_node;
}

namespace {

// The share of a collective's bytes that one member sends.
double ShareSent(CollectiveKind kind, double members, double rounds) {
  if (kind == CollectiveKind::kAllToAll) {
    return (members - 1) / (members * members);
  }
  return kind == CollectiveKind::kBroadcast ? 1 : rounds * (members - 1) / members;
}

}  // namespace

double CollectiveSeconds(CollectiveKind kind, double bytes, double calls, const GroupPlacement& group,
                         const Cluster& cluster, const LinkShares& shares) {
  if (group.size <= 1 || bytes <= 0) {
    return 0;
  }
  const double members = group.size;
  const double rounds = kind == CollectiveKind::kAllReduce ? 2 : 1;
  const double share_sent = ShareSent(kind, members, rounds);
  double bandwidth = cluster.device_link.bandwidth * shares.device;
  const int nodes = group.nodes();
  if (group.crosses_nodes()) {
    const double cards = std::min<double>(static_cast<double>(cluster.cards) / group.sharing, cluster.cards_per_ring);
    const double across = cluster.node_link.bandwidth * cards * shares.node;
    bandwidth = group.per_node > 1 ? std::min(bandwidth, across) : across;
  }
  const double moving = share_sent * bytes / bandwidth;
  const double levels = std::bit_width(static_cast<unsigned>(nodes - 1));
  double best = -1;
  for (const Protocol& protocol : kProtocols) {
    const double device_hop = protocol.device_hop * cluster.device_link.latency;
    const double node_hop = protocol.node_hop * cluster.node_link.latency * shares.latency;
    const double ring = protocol.base + rounds * ((members - nodes) * device_hop + (nodes - 1) * node_hop);
    const double seconds = calls * ring + moving / protocol.bandwidth;
    best = best < 0 ? seconds : std::min(best, seconds);
    if (kind == CollectiveKind::kAllReduce && nodes > 1) {
      const double tree = protocol.base + 2 * ((group.per_node - 1) * device_hop + levels * node_hop);
      best = std::min(best, calls * tree + moving / (protocol.bandwidth * kTreeBandwidth));
    }
  }
  return best;
}

std::vector<PricedCollective> CollectivesOf(const Traffic& traffic, int size) {
  std::vector<PricedCollective> collectives;
  const auto add = [&](CollectiveKind from, CollectiveKind as, double bytes_each, double calls_each) {
    const auto k = static_cast<std::size_t>(from);
    if (traffic.calls[k] > 0) {
      collectives.push_back(
          {as, static_cast<double>(traffic.bytes[k]) * bytes_each, static_cast<double>(traffic.calls[k]) * calls_each});
    }
  };
  for (int i = 0; i < kCollectiveKinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    if (kind != CollectiveKind::kSend && kind != CollectiveKind::kReceive && kind != CollectiveKind::kBarrier) {
      add(kind, kind, 1, 1);
    }
  }
  const double passes = size > 1 ? size - 1 : 1;
  add(CollectiveKind::kSend, CollectiveKind::kAllGather, size / passes, 1 / passes);
  return collectives;
}

double MessageSeconds(double bytes, const Cluster& cluster, const ParallelLayout& layout, double share) {
  if (layout.pipeline <= 1) {
    return 0;
  }
  return MessageSeconds(bytes, cluster, StagesCrossNodes(cluster, layout), share);
}

double MessageSeconds(double bytes, const Cluster& cluster, bool across_nodes, double share) {
  if (!across_nodes) {
    return cluster.device_link.latency + bytes / (cluster.device_link.bandwidth * share);
  }
  return cluster.node_link.latency + bytes * cluster.devices_per_node / (cluster.node_bandwidth() * share);
}

}  // namespace trireme
