// The search of an allocation of which nodes may stay idle: an awkward number of them can be slower than a few less.
#pragma once

#include <string>

#include "planner/search/search.h"

namespace trireme {

struct AtMostResult {
  SearchResult found;      // on the devices that work
  int devices = 0;         // that work; the request's own where nothing fits
  double all_seconds = 0;  // of the fastest layout on all of them; 0: none fits
};

// Tries all devices, then every smaller number of whole nodes, and of devices of one node. The answer never gets slower
// with more nodes. Where as fast, more devices work.
AtMostResult SearchAtMost(const SearchRequest& request);

// How many devices work and why; "" where all do.
std::string IdleText(const AtMostResult& result, const SearchRequest& request);

}  // namespace trireme
