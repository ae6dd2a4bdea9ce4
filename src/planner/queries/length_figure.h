// A layout against the length of its samples: seconds, the share of attention in them, memory. For our stack and
// others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace trireme {

// "8192,32768,131072". An Error names what is no length.
std::vector<std::int64_t> ParseLengths(const std::string& text);

struct LengthPoint {
  std::int64_t tokens = 0;
  double seconds = 0;
  double attention = 0;  // share of them
  double context = 0;    // share that attention waits for its context group
  double peak = 0;       // bytes of the fullest device
  bool fits = false;
  std::string refusal;  // why the layout cannot have samples of this length; nothing else is known then
};
// The request's model with samples of each length, in a batch of as many samples.
std::vector<LengthPoint> PriceLengths(const SearchRequest& request, const ParallelLayout& layout,
                                      const std::vector<std::int64_t>& lengths);
// A line each with bars: of seconds, one mark for each doubling; of memory, in proportion.
std::string LengthFigure(const std::vector<LengthPoint>& points);

}  // namespace trireme
