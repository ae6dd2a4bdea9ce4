#include "apps/trireme/this_machine.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/trireme/plan_validate.h"
#include "cost/step_cost.h"
#include "device/core_wait.h"
#include "device/device.h"
#include "measure/all_ranks.h"
#include "measure/brief_probe.h"
#include "measure/calibrate.h"
#include "measure/group_probe.h"
#include "measure/pace.h"
#include "report/pages.h"
#include "topology/calibration_file.h"

namespace trireme {
namespace {

// " (busy: other processes took 45 % of the cores meanwhile)"; "" where the machine was quiet.
std::string BusyText(double waited) {
  return waited < kQuietShare
             ? ""
             : fmt::format(" (busy: other processes took {:.0f} % of the cores meanwhile)", 100 * waited);
}

void ScaleToPace(const Pace& pace, PredictionContext& prediction) {
  MeasuredRates& measured = *prediction.cluster.measured;
  const double times = PaceRatio(measured, pace.seconds);
  measured = WhileBusy(AtPace(measured, times), pace.waited);
  prediction.knowledge += times == 1 ? ""
                                     : fmt::format(", whose cores are {:.0f} % {} now", 100 * std::abs(times - 1),
                                                   times > 1 ? "slower" : "faster");
  prediction.knowledge += BusyText(pace.waited);
}

void UseMeasuredRates(const BriefProbe& probe, int nodes, PredictionContext& prediction) {
  const std::string prior = prediction.cluster.name;
  prediction.cluster = WithMeasuredRates(prediction.cluster, probe, nodes);
  prediction.knowledge = fmt::format(
      "the cluster file '{}' with operations timed just now on {}{}: `trireme calibrate` measures this machine", prior,
      prediction.cluster.device.name, BusyText(probe.waited));
}

}  // namespace

MachineReport ReportOfThisMachine() {
  return DescribeMachine({.report = std::string(PagesAbsence()), .planner = std::string(PlannerPageAbsence())});
}

std::optional<PredictionContext> CalibratedMachine(const std::string& device, const std::string& stacks_folder) {
  const std::string machine = MachineName(device);
  const std::optional<Cluster> cluster = LoadCalibration(machine);
  if (!cluster) {
    return std::nullopt;
  }
  const std::string date = cluster->measured ? cluster->measured->date : "an unknown date";
  return PredictionContext{.cluster = *cluster,
                           .stack = LoadStack(NamedPath(stacks_folder, "stacks", "trireme", "stack"), ""),
                           .knowledge = fmt::format("the calibration of {} ({})", date, CalibrationPath(machine))};
}

std::optional<PredictionContext> ThisMachine(const std::string& device) {
  if (std::optional<PredictionContext> calibrated = CalibratedMachine(device)) {
    return calibrated;
  }
  const std::string label = IsHostDevice(device) ? "cpu" : MachineName(device);
  const std::optional<Cluster> cluster = ClosestByDevice(LoadClusters(DataFolder("", "clusters")), label);
  if (!cluster) {
    return std::nullopt;
  }
  return PredictionContext{
      .cluster = *cluster,
      .stack = LoadStack(NamedPath("", "stacks", "trireme", "stack"), ""),
      .knowledge =
          fmt::format("the cluster file '{}', a prior: `trireme calibrate` measures this machine", cluster->name)};
}

void ScaleToCurrentSpeed(RankContext& context, const RunConfig& config, std::optional<PredictionContext>& prediction) {
  if (!context.device.is_host() || context.device.is_paced()) {
    return;
  }
  enum : std::uint8_t { kLeave, kPace, kProbe };
  const bool calibrated = prediction && prediction->cluster.measured;
  const int wanted = !prediction                              ? kLeave
                     : !calibrated                            ? kProbe
                     : prediction->cluster.measured->pace > 0 ? kPace
                                                              : kLeave;
  const auto todo = static_cast<int>(NumbersOfRanks(context, wanted).front());
  if (todo == kPace) {
    const Pace pace = MeasurePace(context);
    if (prediction) {
      ScaleToPace(pace, *prediction);
    }
  } else if (todo == kProbe) {
    const std::optional<BriefProbe> probe = ProbeBriefly(context, WorkingDType(config.train.dtype));
    const int nodes = PlaceOf(context).nodes;
    if (prediction && probe) {
      UseMeasuredRates(*probe, nodes, *prediction);
    }
  }
}

PredictionContext PacedMachine(const std::string& cluster) {
  PredictionContext prediction{.cluster = LoadCluster(NamedPath("", "clusters", cluster, "cluster"), ""),
                               .stack = LoadStack(NamedPath("", "stacks", "trireme", "stack"), ""),
                               .knowledge = {}};
  prediction.cluster.measured.reset();
  prediction.knowledge = fmt::format("the cluster file '{}', which also paces the run", prediction.cluster.name);
  return prediction;
}

}  // namespace trireme
