// The least allocation that finishes a training in time.
#pragma once

#include "planner/search/search.h"

namespace trireme {

struct DeadlineAnswer {
  int nodes = 0;   // 0: not even the whole cluster
  Candidate best;  // the fastest layout on them, or on at most the whole cluster
  double days = 0;
};

// Searches every count of nodes upwards from the request's own: the least that makes it is the answer.
DeadlineAnswer NodesForDeadline(const SearchRequest& request, double tokens, double days);
std::string ToText(const DeadlineAnswer& answer, const SearchRequest& request, double days);

}  // namespace trireme
