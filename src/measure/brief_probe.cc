#include "measure/brief_probe.h"

#include <algorithm>

#include "device/host_memory.h"
#include "measure/all_ranks.h"
#include "measure/calibrate.h"
#include "measure/group_probe.h"
#include "measure/rank_probe.h"

namespace trireme {
namespace {

// Half of an 80 % interval. A calibration has at most 0.5.
constexpr double kBriefSpread = 0.6;
// Steps of seven models took a quarter to a third longer than the best of five calls adds up to: their operands come
// from farther away. docs/predictions.md has what is left.
constexpr double kStepOverBest = 1.25;

// Of the first of `ranks` ranks that measure at once.
RankRates ProbeThreads(int ranks, const DeviceOptions& options, DType dtype) {
  RankRates rates;
  RunThreadRanks(ranks, options, [&](RankContext& context) {
    const RankProbe probe = MeasureRank(context, dtype, {.brief = true});
    if (context.world.rank() == 0) {
      rates = probe.rates;
    }
  });
  return rates;
}

}  // namespace

RankRates ProbeBriefly(RankContext& context, const DeviceOptions& options, DType dtype) {
  const DType measured = dtype == DType::kFloat16 ? DType::kFloat32 : dtype;
  const int at_once = std::max(1, JobCores() / context.threads);
  DeviceOptions own = options;
  own.threads = context.threads;
  own.pin = "none";  // the run's claim on its cores is for its own ranks
  const int local = PlaceOf(context).local;
  RankRates rates;
  if (LaunchedByMpi() && local < at_once) {
    rates = ProbeThreads(1, own, measured);
  } else if (!LaunchedByMpi() && local == 0) {
    rates = ProbeThreads(std::min(context.world.size(), at_once), own, measured);
  }
  context.world.Barrier();
  return Slowed(rates, kStepOverBest);
}

Cluster AtHand(Cluster prior, const RankRates& rates, int nodes) {
  const int cores = JobCores();
  prior.nodes = nodes;
  prior.devices_per_node = cores;
  prior.device.name = MachineName("cpu");
  prior.host_memory = static_cast<double>(HostMemoryBytes());
  prior.device.memory = prior.host_memory / cores;
  prior.measured =
      MeasuredRates{.machine = prior.device.name, .cores = cores, .spread = kBriefSpread, .ranks = {rates}};
  return prior;
}

}  // namespace trireme
