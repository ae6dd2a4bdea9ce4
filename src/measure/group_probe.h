// Measures collectives of a group by their size, all groups of that size at once, as a training step has them.
#pragma once

#include "comm/rank_runner.h"
#include "measure/rank_probe.h"
#include "topology/measured_rates.h"

namespace trireme {

// Where a rank lies among the machines of the world.
struct RankPlace {
  int node = 0;         // of the world, from 0
  int nodes = 1;        // in all
  int local = 0;        // rank on its node
  int local_ranks = 1;  // least of all nodes
};
// Machines are told apart by their host names. Collective over the world.
RankPlace PlaceOf(RankContext& context);

// Laws of `group`, of which `context` is a member by device. Collective over the group.
GroupRates MeasureGroup(RankContext& context, Communicator& group, DType dtype, const ProbeOptions& options);

// Laws of groups of 2, 4, 8 … ranks of a node, and of groups across nodes. Collective over the world; equal ranks
// measure at once and rank 0's count.
std::vector<GroupRates> MeasureGroups(RankContext& context, DType dtype, const ProbeOptions& options);

}  // namespace trireme
