#include "measure/brief_probe.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "device/host_memory.h"
#include "measure/all_ranks.h"
#include "measure/calibrate.h"
#include "measure/group_probe.h"
#include "measure/rank_probe.h"

namespace trireme {
namespace {

// Half of an 80 % interval. That of an undisturbed calibration is at most 0.5.
constexpr double kBriefSpread = 0.6;
// Steps of seven models took a quarter to a third longer than the best of five calls adds up to: their operands come
// from farther away. docs/evidence/predictions.md has what is left.
constexpr double kStepOverBest = 1.25;

// Of the first of `ranks` ranks that measure at once, as many threads each and the same engines as `run` has. None
// where it fails: other ranks wait in a collective, and a run does without.
std::optional<RankRates> ProbeThreads(int ranks, const RankContext& run, DType dtype) {
  // A device that was given a chooser takes over the run's engines; nothing is measured for it.
  const DeviceOptions options{
      .kind = "cpu", .threads = run.threads, .choose_engines = [](int) { return std::string(); }};
  const std::string engines = run.device.choices();
  std::optional<RankRates> rates;
  try {
    RunThreadRanks(ranks, options, [&](RankContext& context) {
      context.device.ReadChoices(engines);
      const RankProbe probe = MeasureRank(context, dtype, {.brief = true});
      if (context.world.rank() == 0) {
        rates = Slowed(probe.rates, kStepOverBest);
      }
    });
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: operations are not timed before the run: %s\n", error.what());
    return std::nullopt;
  }
  return rates;
}

}  // namespace

std::optional<RankRates> ProbeBriefly(RankContext& context, DType dtype) {
  const DType measured = dtype == DType::kFloat16 ? DType::kFloat32 : dtype;
  const int at_once = RanksAtOnce(context);
  const int local = PlaceOf(context).local;
  std::optional<RankRates> rates;
  if (LaunchedByMpi() && local < at_once) {
    rates = ProbeThreads(1, context, measured);
  } else if (!LaunchedByMpi() && local == 0) {
    rates = ProbeThreads(std::min(context.world.size(), at_once), context, measured);
  }
  context.world.Barrier();
  return rates;
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
