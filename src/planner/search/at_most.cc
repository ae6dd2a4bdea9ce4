#include "planner/search/at_most.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "planner/search/work_bound.h"

namespace trireme {
namespace {

// Allocations below `devices`, larger ones first.
std::vector<int> SmallerAllocations(int devices, int per_node) {
  std::vector<int> counts;
  for (int nodes = (devices - 1) / per_node; nodes >= 1; --nodes) {
    counts.push_back(nodes * per_node);
  }
  for (int count = std::min(devices, per_node) - 1; count >= 1; --count) {
    counts.push_back(count);
  }
  return counts;
}

// Whether some layout of the request can have so many ranks.
bool HeldDegreesDivide(const SearchRequest& request, int devices) {
  std::int64_t held = 1;
  for (const std::optional<int>& degree : {request.tensor, request.context, request.pipeline, request.data}) {
    held *= degree.value_or(1);
  }
  return devices % held == 0;
}

}  // namespace

AtMostResult SearchAtMost(const SearchRequest& request) {
  AtMostResult result{.found = Search(request), .devices = request.devices};
  double best = request.most_seconds;
  if (!result.found.ranked.empty()) {
    best = result.all_seconds = result.found.ranked.front().seconds;
  }
  const ModelAccount account(request.config.model);
  WorkBound bound(request);
  SearchRequest less = request;
  less.keep = 1;
  less.tie = 0;
  for (const int devices : SmallerAllocations(request.devices, request.cluster.devices_per_node)) {
    less.devices = devices;
    less.most_seconds = best;
    if (bound.LeastSeconds(account, devices) >= best) {
      break;  // fewer devices take longer still
    }
    const SearchResult found = HeldDegreesDivide(request, devices) ? Search(less) : SearchResult{};
    if (!found.ranked.empty()) {
      best = found.ranked.front().seconds;
      result.devices = devices;
    }
  }
  if (result.devices != request.devices) {
    SearchRequest working = request;
    working.devices = result.devices;
    result.found = Search(working);
  }
  return result;
}

std::string IdleText(const AtMostResult& result, const SearchRequest& request) {
  if (result.devices == request.devices) {
    return "";
  }
  const int per_node = request.cluster.devices_per_node;
  const int idle = request.devices - result.devices;
  const std::string nodes =
      idle % per_node == 0 ? fmt::format(" ({} node{})", idle / per_node, idle == per_node ? "" : "s") : "";
  const std::string why = result.all_seconds > 0
                              ? fmt::format("the fastest layout on all {} takes {:.1f} % longer", request.devices,
                                            100 * (result.all_seconds / result.found.ranked.front().seconds - 1))
                              : fmt::format("no layout fits or divides all {}", request.devices);
  return fmt::format("{} of {} devices work, {}{} idle: {}", result.devices, request.devices, idle, nodes, why);
}

}  // namespace trireme
