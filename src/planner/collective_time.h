// Seconds of a collective: rings over the slowest link on their way. A node's network cards are shared by all rings
// that cross it at once, which is why a data collective of a small tensor degree is cheaper.
#pragma once

#include "base/accounting.h"
#include "topology/cluster.h"
#include "topology/layout.h"

namespace trireme {

// How a group of ranks lies on the nodes, and how many groups like it share a node.
struct GroupPlacement {
  int size = 1;
  int per_node = 1;  // ranks of the group on one node
  int sharing = 1;   // groups that cross a node's cards at once

  bool crosses_nodes() const { return per_node < size; }
};

// Ranks in the order of ProcessGrid: tensor innermost, then data, pipeline outermost, filling node after node.
GroupPlacement PlaceTensor(const Cluster& cluster, const ParallelLayout& layout);
GroupPlacement PlaceData(const Cluster& cluster, const ParallelLayout& layout);
// Whether some neighbouring stages lie on different nodes.
bool StagesCrossNodes(const Cluster& cluster, const ParallelLayout& layout);

struct LinkShares {
  double device = 0.7;  // of the device link
  double node = 0.5;    // of a node's cards
};

// bytes: as Traffic counts them. calls: how many collectives they are cut into.
double CollectiveSeconds(CollectiveKind kind, double bytes, double calls, const GroupPlacement& group,
                         const Cluster& cluster, const LinkShares& shares);

// One message between neighbouring stages while every rank of a node sends one of `bytes`.
double MessageSeconds(double bytes, const Cluster& cluster, const ParallelLayout& layout, double share);

}  // namespace trireme
