#include "planner/search/at_most.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "planner/pricing/step_estimate.h"
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

// Bytes of weights and optimizer state, which a run holds at least once, on devices, hosts or disks.
double StateBytes(const SearchRequest& request, const ModelAccount& account) {
  ParallelLayout one = request.rest;
  one.zero = 0;
  const PlanPoint point = PointOf(request, one);
  PipelineClock clock;
  const StageMemory memory = point.prices.Memory(point, account, BlocksOfStages(point), clock)(0);
  return memory.weights + memory.optimizer;
}

// Whether so many devices and their nodes have room for that.
bool CanHold(double state_bytes, const SearchRequest& request, int devices) {
  const Cluster& cluster = request.cluster;
  const std::vector<std::string> offloads = request.offload ? std::vector{*request.offload} : request.offloads();
  const bool host = std::any_of(offloads.begin(), offloads.end(), [](const std::string& one) { return one != "none"; });
  const double of_node = cluster.job_memory() + (request.state.time.nvme_offload ? cluster.nvme : 0);
  const double nodes = std::ceil(static_cast<double>(devices) / cluster.devices_per_node);
  return state_bytes <= devices * UsableMemory(cluster) * (1 - request.headroom) + (host ? nodes * of_node : 0);
}

// Searches smaller and smaller allocations, each for what is faster than what is known.
class SmallerSearch {
 public:
  explicit SmallerSearch(const SearchRequest& request)
      : request_(request),
        account_(request.config.model),
        bound_(request),
        state_bytes_(StateBytes(request, account_)),
        less_(request) {
    less_.keep = 1;
    less_.tie = 0;
  }

  // Whether these or fewer devices can take less than `most_seconds`.
  bool CanTakeLess(int devices, double most_seconds) {
    return bound_.LeastSeconds(account_, devices) < most_seconds && CanHold(state_bytes_, request_, devices);
  }

  SearchResult Search(int devices, double most_seconds) {
    if (!HeldDegreesDivide(request_, devices)) {
      return {};
    }
    less_.devices = devices;
    less_.most_seconds = most_seconds;
    return trireme::Search(less_);
  }

 private:
  const SearchRequest& request_;
  ModelAccount account_;
  WorkBound bound_;
  double state_bytes_;
  SearchRequest less_;
};

struct Tried {
  int devices = 0;
  SearchResult found;

  double seconds() const { return found.ranked.front().seconds; }
};

// The answer that the caller wants of an allocation: a search for something faster kept one layout.
SearchResult WholeAnswer(const SearchRequest& request, const Tried& tried) {
  if (tried.devices == request.devices || (request.keep == 1 && request.tie == 0)) {
    return tried.found;
  }
  SearchRequest working = request;
  working.devices = tried.devices;
  return Search(working);
}

}  // namespace

AtMostResult SearchAtMost(const SearchRequest& request, double worth) {
  AtMostResult result{.found = Search(request), .devices = request.devices};
  double best = request.most_seconds;
  std::vector<Tried> tried;
  if (!result.found.ranked.empty()) {
    best = result.all_seconds = result.found.ranked.front().seconds;
    tried.push_back({request.devices, result.found});
  }
  SmallerSearch smaller(request);
  for (const int devices : SmallerAllocations(request.devices, request.cluster.devices_per_node)) {
    const double most_seconds = best * (1 + worth);
    if (!smaller.CanTakeLess(devices, most_seconds)) {
      break;
    }
    SearchResult found = smaller.Search(devices, most_seconds);
    if (!found.ranked.empty()) {
      best = std::min(best, found.ranked.front().seconds);
      tried.push_back({devices, std::move(found)});
    }
  }
  const auto fewest =
      std::find_if(tried.rbegin(), tried.rend(), [&](const Tried& one) { return one.seconds() <= best * (1 + worth); });
  if (fewest != tried.rend()) {
    result.devices = fewest->devices;
    result.found = WholeAnswer(request, *fewest);
  }
  return result;
}

AtMostResult SearchUntilOneFits(const SearchRequest& request) {
  AtMostResult result{.found = Search(request), .devices = request.devices};
  if (!result.found.ranked.empty()) {
    result.all_seconds = result.found.ranked.front().seconds;
    return result;
  }
  SmallerSearch smaller(request);
  for (const int devices : SmallerAllocations(request.devices, request.cluster.devices_per_node)) {
    if (!smaller.CanTakeLess(devices, request.most_seconds)) {
      break;
    }
    SearchResult found = smaller.Search(devices, request.most_seconds);
    if (!found.ranked.empty()) {
      return {.found = std::move(found), .devices = devices};
    }
  }
  return result;
}

AtMostResult SearchAllocation(const SearchRequest& request) {
  if (request.may_idle) {
    return SearchAtMost(request);
  }
  AtMostResult all{.found = Search(request), .devices = request.devices};
  all.all_seconds = all.found.ranked.empty() ? 0 : all.found.ranked.front().seconds;
  return all;
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
