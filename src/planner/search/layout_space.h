// The layouts of a search, as branches: all that differ in the micro batch only. A branch that cannot run carries the
// reason and is counted in bulk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "run/offered.h"

namespace trireme {

struct LayoutBranch {
  ParallelLayout layout;           // micro batch aside
  std::vector<int> micro_batches;  // ascending
  std::int64_t leaves = 0;         // layouts that the branch stands for
  std::string refusal;             // "": its micro batches are to be visited
};

std::vector<LayoutBranch> LayoutBranches(const SearchRequest& request);

// Staged offloading works with every stage of ZeRO. Else, as in DeepSpeed, weights in host memory are what ZeRO 3 has
// partitioned, and optimizer state on the host is what ZeRO has.
std::string OffloadRefusal(const SoftwareStack& stack, int zero, Offload offload);
// Why the program cannot run a layout at all; "" when it can.
std::string StackRefusal(const SearchRequest& request, const ParallelLayout& layout);
// What this program's trainer does not offer together, by the list that a run reads when it starts; for other stacks
// experts alone, whose cost in them is not known.
std::optional<NotOffered> TrainerRefusal(const SearchRequest& request, const ParallelLayout& layout);
// What a single layout of a branch may still break: counts of micro batches that its schedule refuses, tokens that the
// tensor degree does not divide. "" when nothing.
std::string RefusalOf(const SearchRequest& request, const ParallelLayout& layout);

}  // namespace trireme
