// How many devices a model needs that does not fit on those asked about.
#pragma once

#include "planner/search/search.h"

namespace trireme {

struct LeastDevices {
  int devices = 0;    // 0: none of those tried hold it
  int too_few = 0;    // the last allocation tried that does not
  Candidate fastest;  // on `devices`
};

// Doubles the request's devices until some layout fits, to whole nodes once there are several, and to at most
// 1,024 devices. With room in host memory or on devices not the reason, nothing is tried.
LeastDevices FindLeastDevices(const SearchRequest& request, const SearchResult& refused);

}  // namespace trireme
