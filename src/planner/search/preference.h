// Which layout to take of several that predictions do not tell apart: the one that is the least trouble to run.
#pragma once

#include <cstdint>

#include "planner/pricing/plan_point.h"

namespace trireme {

// Less is better, the first member first.
struct Preference {
  bool nearly_full = false;  // fits with a probability below 0.9
  int offloads = 0;          // 1: optimizer state lies on the host, 2: weights too; 3 and 4: with activations
  int stages = 1;
  int options = 0;              // how many more a layout uses: schedule, partition, recomputation, ZeRO, sequences cut
  double cross_node_bytes = 0;  // that a device sends over the network in a step, to an order of magnitude

  bool operator<(const Preference& other) const;
};

// peak: bytes of the fullest device.
Preference PreferenceOf(const PlanPoint& point, double peak);

}  // namespace trireme
