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
// with more nodes. A larger allocation must be faster by more than the share `worth` to be worth its devices; where as
// fast under 0, more devices work. Ends where fewer devices cannot be as fast, or cannot hold the model's state. With
// keep 1 and tie 0 the front of speed and memory may be empty.
AtMostResult SearchAtMost(const SearchRequest& request, double worth = 0);

// All devices where some layout fits them, else the largest smaller allocation that some layout fits.
AtMostResult SearchUntilOneFits(const SearchRequest& request);

// SearchAtMost where the request says that devices may be idle, else all devices.
AtMostResult SearchAllocation(const SearchRequest& request);

// How many devices work and why; "" where all do.
std::string IdleText(const AtMostResult& result, const SearchRequest& request);

}  // namespace trireme
