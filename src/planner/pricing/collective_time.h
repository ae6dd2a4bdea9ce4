// Seconds of a collective by algorithm: rings, whose latency grows with the group, and trees, whose latency grows with
// its logarithm, each in three protocols that trade latency for bandwidth, as NCCL has them. The library picks the
// fastest. A node's network cards are shared by all groups that cross it at once, which is why a data collective of a
// small tensor degree is cheaper.
#pragma once

#include <vector>

#include "base/accounting.h"
#include "topology/cluster.h"
#include "topology/layout.h"

namespace trireme {

struct LinkShares {
  double device = 0.7;  // of the device link
  double node = 0.5;    // of a node's cards
  double latency = 1;   // times that of the node link
};

// How a group of ranks lies on the nodes, and how many groups like it share a node.
struct GroupPlacement {
  int size = 1;
  int per_node = 1;  // ranks of the group on one node
  int sharing = 1;   // groups that cross a node's cards at once

  bool crosses_nodes() const { return per_node < size; }
  int nodes() const { return (size + per_node - 1) / per_node; }
};

// Ranks in the order of ProcessGrid: tensor innermost, then context, data, pipeline outermost, filling node after
// node. A group that does not divide a node lies across two of them somewhere, and that one sets the pace.
GroupPlacement PlaceTensor(const Cluster& cluster, const ParallelLayout& layout);
// Ranks that exchange keys and values of one sequence.
GroupPlacement PlaceContext(const Cluster& cluster, const ParallelLayout& layout);
// What moves along the context axis, by the ranks that it goes between: where Ulysses works within groups of
// `head_ranks` (HeadRanks), all-to-all stays within them and the rest goes across.
struct ContextTraffic {
  Traffic traffic;
  GroupPlacement group;
};
std::vector<ContextTraffic> PlaceContextTraffic(const Cluster& cluster, const ParallelLayout& layout, int head_ranks,
                                                const Traffic& traffic);
// Ranks that reduce gradients of the same weights: the data axis and the context axis.
GroupPlacement PlaceData(const Cluster& cluster, const ParallelLayout& layout);
// Places `ranks` neighbours of the data group.
GroupPlacement PlaceShards(const Cluster& cluster, const ParallelLayout& layout, int ranks);
// Ranks among which experts are divided: neighbours, but for those that divide the width of an expert. A group that
// fits into a domain of links lies within one, since schedulers hand out whole parts of it (Slurm's topology/block).
GroupPlacement PlaceExperts(const Cluster& cluster, const ParallelLayout& layout);
// Ranks that hold the same experts.
GroupPlacement PlaceExpertReplicas(const Cluster& cluster, const ParallelLayout& layout);
// An exchange in which each rank sends `within` bytes to ranks of its node and `across` bytes to those of other nodes,
// while all ranks of the node do.
double ExchangeSeconds(double within, double across, const GroupPlacement& group, const Cluster& cluster,
                       const LinkShares& shares);
// Whether some neighbouring stages lie on different nodes.
bool StagesCrossNodes(const Cluster& cluster, const ParallelLayout& layout);

// bytes: as Traffic counts them. calls: how many collectives they are cut into.
double CollectiveSeconds(CollectiveKind kind, double bytes, double calls, const GroupPlacement& group,
                         const Cluster& cluster, const LinkShares& shares);

// The collectives of a group of `size`. What passes around it rank by rank counts as an all-gather of the same bytes.
struct PricedCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double bytes = 0;
  double calls = 0;
};
std::vector<PricedCollective> CollectivesOf(const Traffic& traffic, int size);

// One message while every rank of a node sends one of `bytes`.
double MessageSeconds(double bytes, const Cluster& cluster, bool across_nodes, double share);
// One message between neighbouring stages while every rank of a node sends one of `bytes`.
double MessageSeconds(double bytes, const Cluster& cluster, const ParallelLayout& layout, double share);

}  // namespace trireme
