#include "planner/queries/deadline.h"

#include <algorithm>

#include "base/error.h"
#include "planner/queries/plan_text.h"

namespace trireme {

DeadlineAnswer NodesForDeadline(const SearchRequest& request, double tokens, double days) {
  const Cluster& cluster = request.cluster;
  DeadlineAnswer answer;
  int nodes = std::max(1, request.devices / cluster.devices_per_node);
  while (true) {
    int next = nodes + std::max(1, nodes / 32);
    SearchRequest larger = request;
    larger.devices = nodes * cluster.devices_per_node;
    larger.keep = 1;
    const SearchResult found = Search(larger);
    if (!found.ranked.empty()) {
      const double needed = TimeOfTraining(larger, found.ranked.front(), tokens).days;
      if (answer.days == 0 || needed < answer.days) {
        answer.best = found.ranked.front();
        answer.days = needed;
      }
      if (needed <= days) {
        answer.nodes = nodes;
        return answer;
      }
      // Speed hardly grows faster than the allocation, so that much smaller ones need not be tried.
      next = std::max(next, static_cast<int>(std::min(0.9 * nodes * needed / days, 1e6)));
    }
    if (nodes >= cluster.nodes) {
      return answer;
    }
    nodes = std::min(cluster.nodes, next);
  }
}

std::string ToText(const DeadlineAnswer& answer, const SearchRequest& request, double days) {
  if (answer.nodes == 0) {
    return fmt::format("deadline of {:.1f} days: out of reach of the {} nodes of {}; the best is {:.1f} days\n", days,
                       request.cluster.nodes, request.cluster.name, answer.days);
  }
  return fmt::format("deadline of {:.1f} days: {} nodes make it in {:.1f} ({:.3f} s/step)  {}\n", days, answer.nodes,
                     answer.days, answer.best.seconds, answer.best.layout.ToString());
}

}  // namespace trireme
