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
    std::vector<int> mask;
    for (const Processor& processor : cores.processors) {
      mask.push_back(processor.id);
    }
    placement.claim = std::make_unique<ProcessorClaim>(mask);
    if (!placement.claim->alone()) {
      placement.processors.clear();
    }
  }
  return placement;
}

}  // namespace trireme
