#include "comm/rank_placement.h"

namespace trireme {

RankPlacement PlaceRanks(const HostCores& cores, int ranks, const DeviceOptions& options) {
  RankPlacement placement;
  placement.threads = options.threads > 0 ? options.threads : ThreadsPerRank(cores, ranks);
  placement.cores_suffice = ranks * placement.threads <= cores.usable();
  if (!IsHostDevice(options.kind)) {
    return placement;
  }
  placement.processors = ProcessorsOfRanks(cores, {options.pin, ranks, placement.threads});
  if (options.pin == "auto" && !placement.processors.empty()) {
    placement.claim = std::make_unique<ProcessorClaim>(cores.ids());
    if (!placement.claim->alone()) {
      placement.processors.clear();
    }
  }
  return placement;
}

}  // namespace trireme
