// What no layout can undercut: the products, attention and element-wise kernels of a step's blocks, divided among all
// ranks. Cheaper than a bound of the whole step, so that searches of many allocations skip most layouts by it.
#pragma once

#include <map>
#include <tuple>

#include "planner/search/search.h"

namespace trireme {

// Not for concurrent use: keeps the blocks that it has priced.
class WorkBound {
 public:
  // Refers to the request.
  explicit WorkBound(const SearchRequest& request) : request_(request) {}

  // Seconds that a step takes at least. 0 where ranks share a machine's cores, whose speed depends on their number.
  double LeastSeconds(const ModelAccount& account, const ParallelLayout& layout);
  // Seconds of any layout with so many ranks, at least.
  double LeastSeconds(const ModelAccount& account, int ranks);

 private:
  using Key = std::tuple<int, int, ContextKind, int, int, bool, Recompute, bool>;

  // Seconds of all blocks and micro batches, of all ranks together.
  double DeviceSeconds(const ModelAccount& account, const ParallelLayout& layout);

  const SearchRequest& request_;
  std::map<Key, double> priced_;
  double least_ = -1;  // of any layout; below 0: not known yet
};

}  // namespace trireme
