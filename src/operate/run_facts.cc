#include "operate/run_facts.h"

#include <fmt/format.h>

#include <cstring>

#include "base/units.h"
#include "cost/step_cost.h"

namespace trireme {

std::vector<MemoryUse> CollectMemory(Trainer& trainer) {
  const MemoryUse mine = trainer.parts().Counted().memory;
  const std::string bytes(reinterpret_cast<const char*>(mine.bytes.data()), sizeof mine.bytes);
  std::vector<MemoryUse> by_rank;
  for (const std::string& theirs : trainer.world().CollectBytes(bytes, 0)) {
    std::memcpy(by_rank.emplace_back().bytes.data(), theirs.data(), sizeof mine.bytes);
  }
  return by_rank;
}

std::string CompareDeviceMemory(Trainer& trainer, const MemoryUse& planned, int sharing) {
  const std::int64_t used = trainer.device().used_bytes();
  if (used == 0) {
    return "";
  }
  return Describe({.used = used,
                   .arena = planned.total() * sharing,
                   .communication_planned = trainer.parts().PlannedCommunicationBytes() * sharing,
                   .communication = trainer.parts().CommunicationBytes() * sharing,
                   .workspaces = trainer.device().internal_bytes() * sharing});
}

std::string Describe(const DeviceMemoryFacts& facts) {
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / kGibi; };
  std::string text = fmt::format("device memory: {:.2f} GiB in use; planned {:.2f}", gib(facts.used),
                                 gib(facts.arena + facts.communication_planned));
  if (facts.communication_planned > 0) {
    text += fmt::format(" ({:.2f} of it for NCCL, which took {:.2f})", gib(facts.communication_planned),
                        gib(facts.communication));
  }
  return text + fmt::format(", workspaces {:.2f}, {:.2f} more (contexts, kernels, other programs)",
                            gib(facts.workspaces),
                            gib(facts.used - facts.arena - facts.communication - facts.workspaces));
}

double HardwareFlops(const RunConfig& config, std::int64_t global_batch) {
  double flops = 0;
  for (int pipeline = 0; pipeline < config.layout.pipeline; ++pipeline) {
    for (int context = 0; context < config.layout.context; ++context) {
      const StageOfRun stage(config, pipeline, global_batch, context);
      // Tensor and data ranks of a pipeline stage do the same.
      flops += static_cast<double>(CostOfStep(stage.description(), 0).flops.total()) * config.layout.tensor *
               config.layout.data;
    }
  }
  return flops;
}

}  // namespace trireme
