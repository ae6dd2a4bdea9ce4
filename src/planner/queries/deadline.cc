#include "planner/queries/deadline.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "planner/queries/layout_words.h"
#include "planner/queries/plan_text.h"
#include "planner/search/at_most.h"
#include "planner/search/work_bound.h"

namespace trireme {

namespace {

// Seconds of a step with which the steps alone take so many days.
double SecondsFor(const SearchRequest& request, double tokens, double days) {
  constexpr double kDay = 86'400;
  const RunConfig& config = request.config;
  const double samples = tokens / static_cast<double>(config.model.sequence);
  return kDay * days / std::ceil(samples / static_cast<double>(config.batch.global));
}

double DaysOf(const SearchRequest& request, int devices, const Candidate& candidate, double tokens) {
  SearchRequest on = request;
  on.devices = devices;
  return TimeOfTraining(on, candidate, tokens).days;
}

}  // namespace

DeadlineAnswer NodesForDeadline(const SearchRequest& request, double tokens, double days) {
  const Cluster& cluster = request.cluster;
  const ModelAccount account(request.config.model);
  WorkBound bound(request);
  const double needed = SecondsFor(request, tokens, days);
  SearchRequest larger = request;
  larger.keep = 1;
  larger.tie = 0;
  larger.most_seconds = std::nextafter(needed, 2 * needed);
  for (int nodes = std::max(1, request.devices / cluster.devices_per_node); nodes <= cluster.nodes; ++nodes) {
    larger.devices = nodes * cluster.devices_per_node;
    if (bound.LeastSeconds(account, larger.devices) > needed) {
      continue;
    }
    const SearchResult found = Search(larger);
    if (!found.ranked.empty()) {
      const double taken = TimeOfTraining(larger, found.ranked.front(), tokens).days;
      if (taken <= days) {
        return {.nodes = nodes, .best = found.ranked.front(), .days = taken};
      }
    }
  }
  SearchRequest whole = request;
  whole.devices = cluster.devices();
  whole.keep = 1;
  whole.tie = 0;
  const AtMostResult most = SearchAtMost(whole);
  DeadlineAnswer answer;
  if (!most.found.ranked.empty()) {
    answer.best = most.found.ranked.front();
    answer.days = DaysOf(request, most.devices, answer.best, tokens);
  }
  return answer;
}

std::string ToText(const DeadlineAnswer& answer, const SearchRequest& request, double days) {
  if (answer.nodes == 0) {
    return fmt::format("deadline of {:.1f} days: out of reach of the {} nodes of {}; the best is {:.1f} days\n", days,
                       request.cluster.nodes, request.cluster.name, answer.days);
  }
  return fmt::format("deadline of {:.1f} days: {} nodes make it in {:.1f} ({:.3f} s/step)  {}\n", days, answer.nodes,
                     answer.days, answer.best.seconds, NamedLayout(answer.best.layout));
}

}  // namespace trireme
