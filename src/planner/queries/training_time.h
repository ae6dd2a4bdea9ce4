// Days and device-hours of a whole training: steps, a batch ramp, checkpoints and restarts priced in.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/cluster.h"

namespace trireme {

// A stretch of a run with one batch size.
struct ConstantBatchSpan {
  double samples = 0;
  double global_batch = 1;
  double step_seconds = 0;
};

struct TrainingTimeRequest {
  const Cluster& cluster;
  int devices = 1;
  int spare_nodes = 0;
  double checkpoint_bytes = 0;
  double write_bandwidth = 50e9;    // of the file system, whole
  bool asynchronous = true;         // checkpoints are written while the next steps run
  double restart_seconds = 900;     // from failure to the first new step: queue, start, load
  double replace_seconds = 14'400;  // the same when no spare node is left to step in
};

struct TrainingTime {
  double steps = 0;
  double busy_days = 0;  // steps alone
  double days = 0;       // with checkpoints, lost work and restarts
  double device_hours = 0;
  double checkpoint_seconds = 0;   // that one stops training
  double checkpoint_interval = 0;  // best one, in seconds (Young and Daly)
  double failures = 0;
  double lost_share = 0;      // of the whole
  double megawatt_hours = 0;  // 0 when the cluster file has no power
};

TrainingTime EstimateTraining(const TrainingTimeRequest& request, const std::vector<ConstantBatchSpan>& stretches);

}  // namespace trireme
