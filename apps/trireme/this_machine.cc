#include "apps/trireme/this_machine.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/trireme/plan_validate.h"
#include "device/device.h"
#include "measure/all_ranks.h"
#include "measure/calibrate.h"
#include "measure/pace.h"
#include "topology/calibration_file.h"

namespace trireme {

std::optional<PredictionGround> CalibratedMachine(const std::string& device, const std::string& stacks_folder) {
  const std::string machine = MachineName(device);
  const std::optional<Cluster> cluster = LoadCalibration(machine);
  if (!cluster) {
    return std::nullopt;
  }
  const std::string date = cluster->measured ? cluster->measured->date : "an unknown date";
  return PredictionGround{.cluster = *cluster,
                          .stack = LoadStack("trireme", DataFolder(stacks_folder, "stacks")),
                          .knowledge = fmt::format("the calibration of {} ({})", date, CalibrationPath(machine))};
}

std::optional<PredictionGround> ThisMachine(const std::string& device) {
  if (std::optional<PredictionGround> calibrated = CalibratedMachine(device)) {
    return calibrated;
  }
  const std::string label = IsHostDevice(device) ? "cpu" : MachineName(device);
  const std::optional<Cluster> cluster = ClosestByDevice(LoadClusters(DataFolder("", "clusters")), label);
  if (!cluster) {
    return std::nullopt;
  }
  return PredictionGround{
      .cluster = *cluster,
      .stack = LoadStack("trireme", DataFolder("", "stacks")),
      .knowledge =
          fmt::format("the cluster file '{}', a prior: `trireme calibrate` measures this machine", cluster->name)};
}

void MatchSpeedNow(RankContext& context, std::optional<PredictionGround>& ground) {
  if (!context.device.is_host() || context.device.is_paced()) {
    return;
  }
  const bool has_pace = ground && ground->cluster.measured && ground->cluster.measured->pace > 0;
  if (NumbersOfRanks(context, has_pace ? 1 : 0).front() == 0) {
    return;
  }
  const double now = MeasurePace(context);
  if (!has_pace) {
    return;  // another rank than 0
  }
  MeasuredRates& measured = *ground->cluster.measured;
  const double times = PaceRatio(measured, now);
  measured = AtPace(measured, times);
  ground->knowledge += times == 1 ? ""
                                  : fmt::format(", whose cores are {:.0f} % {} now", 100 * std::abs(times - 1),
                                                times > 1 ? "slower" : "faster");
}

PredictionGround PacedMachine(const std::string& cluster) {
  PredictionGround ground{.cluster = LoadCluster(cluster, DataFolder("", "clusters")),
                          .stack = LoadStack("trireme", DataFolder("", "stacks")),
                          .knowledge = {}};
  ground.cluster.measured.reset();
  ground.knowledge = fmt::format("the cluster file '{}', which also paces the run", ground.cluster.name);
  return ground;
}

}  // namespace trireme
