// What every communicator must do, as functions over a RankContext that throw an Error when it does not: the same cases
// run with threads, processes, and devices of any kind. Expected values come from serial sums.
#pragma once

#include <span>
#include <string_view>

#include "comm/rank_runner.h"

namespace trireme {

struct CollectiveCase {
  std::string_view name;
  void (*run)(RankContext& context);
};

std::span<const CollectiveCase> CollectiveCases();

}  // namespace trireme
