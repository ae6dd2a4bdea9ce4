#include "apps/trireme/this_machine.h"

#include <fmt/format.h>

#include "apps/trireme/plan_validate.h"
#include "device/device.h"
#include "measure/calibrate.h"
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

PredictionGround PacedMachine(const std::string& cluster) {
  PredictionGround ground{.cluster = LoadCluster(cluster, DataFolder("", "clusters")),
                          .stack = LoadStack("trireme", DataFolder("", "stacks")),
                          .knowledge = {}};
  ground.cluster.measured.reset();
  ground.knowledge = fmt::format("the cluster file '{}', which also paces the run", ground.cluster.name);
  return ground;
}

}  // namespace trireme
