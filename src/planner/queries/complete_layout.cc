#include "planner/queries/complete_layout.h"

#include "base/error.h"
#include "planner/search/at_most.h"

namespace trireme {
namespace {

// Devices that a layout with the degrees that `held` names can use: where all are named their product, where the data
// degree is free a multiple of the others'.
int DevicesFor(const SearchRequest& held) {
  if (!held.tensor || !held.pipeline) {
    return held.devices;
  }
  const double replica = static_cast<double>(*held.tensor) * *held.pipeline * held.context.value_or(1);
  if (held.data) {
    const double ranks = replica * *held.data;
    return ranks <= held.devices ? static_cast<int>(ranks) : held.devices;
  }
  return replica <= held.devices ? held.devices / static_cast<int>(replica) * static_cast<int>(replica) : held.devices;
}

// As many of these as the layout has ranks; all where it has more.
int WorkingDevices(const ParallelLayout& layout, int devices) {
  const double ranks = static_cast<double>(layout.tensor) * layout.context * layout.pipeline * layout.data;
  return ranks <= devices ? static_cast<int>(ranks) : devices;
}

std::string IdleRanks(const SearchRequest& request, int working) {
  return working == request.devices
             ? ""
             : fmt::format("{} of {} devices work: the layout has as many ranks", working, request.devices);
}

std::string Joined(const std::string& a, const std::string& b) { return a.empty() || b.empty() ? a + b : a + "; " + b; }

}  // namespace

CompletedLayout CompleteLayout(const SearchRequest& request, const AskedLayout& asked) {
  SearchRequest held = request;
  HoldKeys(asked.layout, held);
  held.devices = DevicesFor(held);
  const std::set<std::string> free = FreeKeys(held, asked.layout);
  CompletedLayout completed{.layout = ParseLayoutOf(request.config.model, asked.layout), .devices = held.devices};
  const std::string idle = IdleRanks(request, held.devices);
  if (asked.defaults || free.empty()) {
    completed.devices = WorkingDevices(completed.layout, request.devices);
    completed.text = IdleRanks(request, completed.devices);
    return completed;
  }
  const AtMostResult most = SearchAllocation(held);
  if (most.found.ranked.empty()) {
    const int replica = WorkingDevices(completed.layout, held.devices);
    if (free.contains("dp") && held.devices % replica == 0) {
      completed.layout.data = held.devices / replica;
    }
    completed.devices = held.data ? WorkingDevices(completed.layout, held.devices) : held.devices;
    completed.text = "no values of the keys that are free make it fit: they have their defaults";
    return completed;
  }
  completed.layout = most.found.recommended.layout;
  completed.devices = most.devices;
  completed.chosen = NamedKeys(completed.layout, free);
  completed.text = Joined("chosen: " + completed.chosen, Joined(idle, IdleText(most, held)));
  return completed;
}

}  // namespace trireme
