// One model on one allocation of machines under several programs, side by side.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace trireme {

struct Compared {
  std::string stack;
  std::optional<Candidate> best;  // its fastest layout, or the one asked for
  std::string reason;             // why there is none
};

// Each stack's fastest layout for the request, or `layout` under each where one is given. The request's own stack does
// not count; axes that it holds fast do.
std::vector<Compared> Compare(const SearchRequest& request, const std::vector<SoftwareStack>& stacks,
                              const std::optional<ParallelLayout>& layout);

std::string ToText(const std::vector<Compared>& compared);
nlohmann::json ToJsonValue(const std::vector<Compared>& compared);

}  // namespace trireme
