// Prices of a paced run: the figures that the planner prices a step with, for one operation at a time. A cluster file
// says what the machine is, the stack of this program how much of it is reached. The order in which operations happen,
// what they wait for and what overlaps is not the planner's: the run itself decides.
#pragma once

#include <memory>

#include "device/paced/paced_cluster.h"
#include "run/run_config.h"
#include "topology/cluster.h"
#include "topology/software_stack.h"

namespace trireme {

// Data-sheet figures: laws that `trireme calibrate` has measured are left aside.
std::shared_ptr<const PacedCluster> PriceCluster(const RunConfig& config, const Cluster& cluster,
                                                 const SoftwareStack& stack);

}  // namespace trireme
