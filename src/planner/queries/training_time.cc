#include "planner/queries/training_time.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trireme {
namespace {

constexpr double kDay = 86'400;
// An asynchronous checkpoint still copies its state to the host: at this share of the host link.
constexpr double kCopyShare = 0.5;

}  // namespace

TrainingTime EstimateTraining(const TrainingTimeRequest& request, const std::vector<ConstantBatchSpan>& stretches) {
  const Cluster& cluster = request.cluster;
  Require(request.devices >= 1, "a training needs at least one device, not {}", request.devices);
  TrainingTime time;
  double busy = 0;
  for (const ConstantBatchSpan& stretch : stretches) {
    Require(stretch.global_batch >= 1 && stretch.step_seconds > 0 && stretch.samples >= 0,
            "a stretch of {} samples in batches of {} at {} seconds per step cannot be priced", stretch.samples,
            stretch.global_batch, stretch.step_seconds);
    const double steps = std::ceil(stretch.samples / stretch.global_batch);
    time.steps += steps;
    busy += steps * stretch.step_seconds;
  }
  const double nodes = std::ceil(static_cast<double>(request.devices) / cluster.devices_per_node);
  const double between_failures = cluster.node_failure_hours * 3600 / nodes;
  const double per_device = request.checkpoint_bytes / request.devices;
  time.checkpoint_seconds = request.asynchronous ? per_device / (cluster.host_link.bandwidth * kCopyShare)
                                                 : request.checkpoint_bytes / request.write_bandwidth;
  // Young and Daly: the interval that balances writing against lost work. Never shorter than a write takes.
  time.checkpoint_interval = std::max(std::sqrt(2 * std::max(time.checkpoint_seconds, 1e-3) * between_failures),
                                      request.checkpoint_bytes / request.write_bandwidth);
  const double failures_covered = request.spare_nodes;
  const double writing = time.checkpoint_seconds / time.checkpoint_interval;
  double total = busy;
  for (int round = 0; round < 20; ++round) {
    time.failures = total / between_failures;
    const double slow = std::max(time.failures - failures_covered, 0.0);
    const double fast = time.failures - slow;
    const double lost = time.failures * time.checkpoint_interval / 2 + fast * request.restart_seconds +
                        slow * (request.spare_nodes > 0 ? request.replace_seconds : request.restart_seconds);
    total = busy * (1 + writing) + std::min(lost, 100 * busy);
  }
  time.busy_days = busy / kDay;
  time.days = total / kDay;
  const double held = request.devices + static_cast<double>(request.spare_nodes) * cluster.devices_per_node;
  time.device_hours = total / 3600 * held;
  time.lost_share = total > 0 ? 1 - busy / total : 0;
  if (cluster.device.watts > 0) {
    const double watts = request.devices * cluster.device.watts + nodes * cluster.node_watts;
    time.megawatt_hours = watts * total / 3600 / 1e6;
  }
  return time;
}

}  // namespace trireme
