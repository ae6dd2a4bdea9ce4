#include "train/memory_room.h"

#include "base/error.h"
#include "base/units.h"
#include "cost/step_cost.h"

namespace trireme {
namespace {

bool Fits(const RunConfig& config, std::int64_t host_bytes) {
  try {
    Validate(config, 0);
  } catch (const Error&) {
    return false;
  }
  return MemoryOfRun(config) <= host_bytes;
}

// A smaller micro batch costs nothing but speed; recomputing comes next.
std::string NearestThatFits(RunConfig config, std::int64_t host_bytes) {
  const int micro_batch = config.layout.micro_batch;
  for (const bool recompute : {false, true}) {
    if (recompute) {
      config.layout.recompute = Recompute::kFull;
      config.layout.recompute_layers = 0;
    }
    for (int smaller = micro_batch; smaller >= 1; --smaller) {
      config.layout.micro_batch = smaller;
      if (micro_batch % smaller == 0 && Fits(config, host_bytes)) {
        return fmt::format("; layout.micro_batch = {}{} would fit", smaller,
                           recompute ? " with layout.recompute = 'full'" : "");
      }
    }
  }
  return "; no micro batch fits: take a smaller model, or more machines (`trireme plan --max-size`)";
}

}  // namespace

std::int64_t MemoryOfRun(const RunConfig& config) {
  std::int64_t bytes = 0;
  for (int pipeline = 0; pipeline < config.layout.pipeline; ++pipeline) {
    bytes += MemoryOfStage(StageOfRun(config, pipeline, config.batch.global).description()).total();
  }
  return bytes * config.layout.tensor * config.layout.data;
}

void RequireRoom(const RunConfig& config, std::int64_t host_bytes) {
  const std::int64_t bytes = MemoryOfRun(config);
  if (bytes > host_bytes) {
    Fail("the {} ranks need {:.1f} GiB of memory, this machine has {:.1f}{}", config.layout.ranks(),
         static_cast<double>(bytes) / kGibi, static_cast<double>(host_bytes) / kGibi,
         NearestThatFits(config, host_bytes));
  }
}

}  // namespace trireme
