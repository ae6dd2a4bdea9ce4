// One model on one allocation of machines under several programs, side by side.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/queries/complete_layout.h"

namespace trireme {

// A stack as the question wants it: on its cluster, with the kernels that are asked for.
using StateOf = std::function<StackState(const SoftwareStack& stack)>;

struct Compared {
  std::string stack;
  std::optional<Candidate> best;  // its fastest layout, or the one asked for
  std::string reason;             // why there is none
};

// Each stack's recommended layout for the request, or the one asked for under each. The request's own stack does
// not count; axes that it holds fast do.
std::vector<Compared> Compare(const SearchRequest& request, const std::vector<SoftwareStack>& stacks,
                              const StateOf& state_of, const AskedLayout& asked);

std::string ToText(const std::vector<Compared>& compared);
nlohmann::json ToJsonValue(const std::vector<Compared>& compared);

}  // namespace trireme
