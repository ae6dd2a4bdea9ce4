#include "planner/collective_time.h"

#include <algorithm>
#include <cmath>

namespace trireme {

GroupPlacement PlaceTensor(const Cluster& cluster, const ParallelLayout& layout) {
  const int node = cluster.devices_per_node;
  const int per_node = std::min(layout.tensor, node);
  return {.size = layout.tensor, .per_node = per_node, .sharing = std::max(1, node / per_node)};
}

GroupPlacement PlaceData(const Cluster& cluster, const ParallelLayout& layout) {
  const int node = cluster.devices_per_node;
  const int stride = layout.tensor * layout.sequence;
  const int per_node = std::clamp(node / stride, 1, layout.data);
  return {.size = layout.data, .per_node = per_node, .sharing = std::max(1, node / per_node)};
}

bool StagesCrossNodes(const Cluster& cluster, const ParallelLayout& layout) {
  return layout.pipeline > 1 && layout.ranks() > cluster.devices_per_node;
}

double CollectiveSeconds(CollectiveKind kind, double bytes, double calls, const GroupPlacement& group,
                         const Cluster& cluster, const LinkShares& shares) {
  if (group.size <= 1 || bytes <= 0) {
    return 0;
  }
  const double members = group.size;
  const double rounds = kind == CollectiveKind::kAllReduce ? 2 : 1;
  const double share_sent =
      kind == CollectiveKind::kAllToAll ? (members - 1) / (members * members) : rounds * (members - 1) / members;
  double bandwidth = cluster.device_link.bandwidth * shares.device;
  double latency = cluster.device_link.latency;
  if (group.crosses_nodes()) {
    const double cards = std::min<double>(static_cast<double>(cluster.cards) / group.sharing, cluster.cards_per_ring);
    const double across = cluster.node_link.bandwidth * cards * shares.node;
    bandwidth = group.per_node > 1 ? std::min(bandwidth, across) : across;
    latency = cluster.node_link.latency;
  }
  // Libraries turn from rings to trees where latency counts, so it grows with the logarithm of the group.
  return share_sent * bytes / bandwidth + calls * rounds * std::log2(members) * latency;
}

double MessageSeconds(double bytes, const Cluster& cluster, const ParallelLayout& layout, double share) {
  if (layout.pipeline <= 1) {
    return 0;
  }
  if (!StagesCrossNodes(cluster, layout)) {
    return cluster.device_link.latency + bytes / (cluster.device_link.bandwidth * share);
  }
  return cluster.node_link.latency + bytes * cluster.devices_per_node / (cluster.node_bandwidth() * share);
}

}  // namespace trireme
