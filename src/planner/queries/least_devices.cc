#include "planner/queries/least_devices.h"

#include <algorithm>

namespace trireme {

LeastDevices FindLeastDevices(const SearchRequest& request, const SearchResult& refused) {
  constexpr int kMost = 1024;
  LeastDevices least{.too_few = request.devices};
  if (!refused.refused.contains(kOutOfDeviceMemory) && !refused.refused.contains(kOutOfHostMemory)) {
    return least;
  }
  const int per_node = request.cluster.devices_per_node;
  const int most = std::min(kMost, request.cluster.devices());
  while (true) {
    int next = 2 * least.too_few;
    if (next > per_node) {
      next = (next + per_node - 1) / per_node * per_node;
    } else if (per_node % next != 0) {
      next = per_node;
    }
    if (next > most) {
      return least;
    }
    SearchRequest larger = request;
    larger.devices = next;
    larger.keep = 1;
    const SearchResult found = Search(larger);
    if (!found.ranked.empty()) {
      least.devices = next;
      least.fastest = found.ranked.front();
      return least;
    }
    least.too_few = next;
  }
}

}  // namespace trireme
