#include "measure/brief_probe.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "device/core_wait.h"
#include "device/host_memory.h"
#include "measure/all_ranks.h"
#include "measure/calibrate.h"
#include "measure/group_probe.h"
#include "measure/pace.h"
#include "measure/rank_probe.h"

namespace trireme {
namespace {

// Half of an 80 % interval. That of an undisturbed calibration is at most 0.5.
constexpr double kBriefSpread = 0.6;
// Steps of seven models took a quarter to a third longer than the best of five calls adds up to: their operands come
// from farther away. docs/evidence/predictions.md has what is left.
constexpr double kStepOverBest = 1.25;

// Rates of the first of `ranks` ranks that measure at once, as many threads each and the same engines as `run` has.
// None where it fails: other ranks wait in a collective, and a run does without.
std::optional<BriefProbe> ProbeThreads(int ranks, const RankContext& run, DType dtype) {
  // A device that was given a chooser takes over the run's engines; nothing is measured for it.
  const DeviceOptions options{
      .kind = "cpu", .threads = run.threads, .choose_engines = [](int) { return std::string(); }};
  const std::string engines = run.device.choices();
  std::optional<BriefProbe> found;
  try {
    RunThreadRanks(ranks, options, [&](RankContext& context) {
      context.device.ReadChoices(engines);
      const CoreWait wait;
      const RankProbe probe = MeasureRank(context, dtype, {.brief = true});
      if (context.world.rank() == 0) {
        found = BriefProbe{.rates = Slowed(probe.rates, kStepOverBest), .waited = wait.Share(ranks * context.threads)};
      }
    });
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: operations are not timed before the run: %s\n", error.what());
    return std::nullopt;
  }
  return found;
}

}  // namespace

std::optional<BriefProbe> ProbeBriefly(RankContext& context, DType dtype) {
  const DType measured = dtype == DType::kFloat16 ? DType::kFloat32 : dtype;
  const int at_once = RanksAtOnce(context);
  const int local = PlaceOf(context).local;
  std::optional<BriefProbe> found;
  if (LaunchedByMpi() && local < at_once) {
    found = ProbeThreads(1, context, measured);
  } else if (!LaunchedByMpi() && local == 0) {
    found = ProbeThreads(std::min(context.world.size(), at_once), context, measured);
  }
  context.world.Barrier();
  return found;
}

Cluster WithMeasuredRates(Cluster prior, const BriefProbe& probe, int nodes) {
  const int cores = JobCores();
  prior.nodes = nodes;
  prior.devices_per_node = cores;
  prior.device.name = MachineName("cpu");
  prior.host_memory = static_cast<double>(HostMemoryBytes());
  prior.device.memory = prior.host_memory / cores;
  prior.measured = WhileBusy(
      {.machine = prior.device.name, .cores = cores, .spread = kBriefSpread, .ranks = {probe.rates}}, probe.waited);
  return prior;
}

}  // namespace trireme
