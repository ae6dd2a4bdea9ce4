// Seconds of an optimizer's update, by what it reads, writes and multiplies and where its state lies.
#pragma once

#include "planner/pricing/plan_point.h"

namespace trireme {

// Bytes that an update on the device moves for each parameter, whole masters aside; moments are read and written. Muon
// and Adafactor turn the gradient into a direction first: one more pass that writes it, and Adafactor's sums another
// that reads it.
double StateBytes(const PlanPoint& point);
// Muon's products, by the owners of the matrices, and the way of the matrices to their owners and back.
double MuonSeconds(const PlanPoint& point);
// Our update of state in host memory: it passes through the device in pieces, both directions of the link, the hosts'
// memory and the device's operations at work at once. A node's ranks share its memory.
double PassingSeconds(const PlanPoint& point, double owned);
// Reading and writing what the hosts cannot hold of offloaded state, each step; a node's ranks share its NVMe.
double NvmeSeconds(const PlanPoint& point, double owned);

}  // namespace trireme
