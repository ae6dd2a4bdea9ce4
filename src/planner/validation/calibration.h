// The few efficiencies of a (cluster, stack) from measured runs: robust least squares, held to the stack's defaults, so
// that one run already helps and outliers do not hurt.
#pragma once

#include <vector>

#include "planner/pricing/memory_estimate.h"
#include "planner/pricing/pipeline_time.h"
#include "planner/validation/least_squares.h"
#include "planner/validation/measured_runs.h"

namespace trireme {

// A measured run ready to be priced many times.
struct PricedRun {
  RunPoint point;
  ModelAccount account;
  double seconds = 0;  // measured; 0: not
  double memory = 0;   // measured bytes; 0: not
};

// Why a run's tensor group may wait where its links do not say so.
enum class TensorWait : std::uint8_t {
  kNone,
  kStages,  // between stages on several nodes: Efficiencies::stall_seconds
  kNodes,   // the group itself lies on several nodes: Efficiencies::node_latency
};
TensorWait TensorWaitOf(const RunPoint& point, const Cluster& cluster);

// Requires all runs to be of `stack` and of one site; their points index `clusters`. `start` shortens the search when a
// near solution is known. `noise`: of a run's logarithm of seconds.
StackCalibration Calibrate(const std::vector<Cluster>& clusters, const SoftwareStack& stack,
                           const std::vector<const PricedRun*>& runs, PipelineClock& clock,
                           const StackCalibration* start = nullptr, double noise = LeastSquares().noise);
// From a handful of runs: those whose tensor group may wait teach how long it waits, the others all else, so that a
// wait is not taken for a slow link.
StackCalibration CalibrateByCause(const std::vector<Cluster>& clusters, const SoftwareStack& stack,
                                  const std::vector<const PricedRun*>& runs, PipelineClock& clock, double noise);

// The stack's state for a run when `calibration` (nullptr: none) stands instead of those of its file.
StackState StateFor(const SoftwareStack& stack, const Cluster& cluster, const MeasuredRun& run,
                    const StackCalibration* calibration);

}  // namespace trireme
