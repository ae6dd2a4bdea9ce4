#include "planner/pricing/update_time.h"

#include <algorithm>

#include "base/shape.h"
#include "base/tensor_spec.h"
#include "cost/optimizer_plan.h"
#include "planner/pricing/data_parallel_time.h"
#include "planner/pricing/price_model.h"

namespace trireme {
namespace {

// Moments of each element that an optimizer of ours keeps; Adafactor's of vectors alone do not count.
int MomentsOf(const PlanPoint& point) { return TraitsOf(point.optimizer()).moments(); }

}  // namespace

double NvmeSeconds(const PlanPoint& point, double owned) {
  const Cluster& cluster = point.cluster;
  if (!point.stack.time.nvme_offload || cluster.nvme <= 0 || cluster.nvme_bandwidth <= 0) {
    return 0;
  }
  const double weights = point.config.layout.offload == Offload::kFull ? point.stack.time.parameter_bytes : 0;
  const double state = point.stack.memory.sharded + weights;
  const double on_node = owned * state * std::min(point.config.layout.ranks(), cluster.devices_per_node);
  return 2 * std::max(on_node - cluster.job_memory(), 0.0) / cluster.nvme_bandwidth;
}

double StateBytes(const PlanPoint& point) {
  const double absent = 2.0 * (2 - MomentsOf(point)) * static_cast<double>(SizeOf(DType::kFloat32));
  const double narrow = 2.0 * MomentsOf(point) * static_cast<double>(SizeOf(DType::kFloat32) - SizeOf(point.moments()));
  return point.stack.time.optimizer_bytes - absent - narrow + TraitsOf(point.optimizer()).direction_bytes;
}

double MuonSeconds(const PlanPoint& point) {
  ModelConfig one = point.config.model;
  one.layers = 1;
  const ParameterTable table(one);
  double flops = 0;
  double largest = 0;
  double elements = 0;
  for (const int row : table.OfModule(1)) {
    const Shape& shape = table.rows()[static_cast<std::size_t>(row)].shape;
    if (shape.rank() == 2) {
      const auto matrix = static_cast<double>(NewtonSchulzFlops(shape[0], shape[1], OptimizerConfig().muon_iterations));
      flops += matrix;
      largest = std::max(largest, matrix);
      elements += static_cast<double>(shape.count());
    }
  }
  const ParallelLayout& layout = point.config.layout;
  const auto blocks = static_cast<double>(CeilDiv(point.config.model.layers, layout.pipeline));
  const DeviceSpec& device = point.cluster.device;
  const double peak = (point.dtype() == DType::kFloat32 ? device.peak_fp32 : device.peak_half) * device.sustained;
  const double products = std::max(blocks * flops / (layout.tensor * layout.replicas()), largest) /
                          (peak * point.stack.efficiencies.matmul);
  const double bytes = 4 * blocks * elements / layout.tensor;
  const double rounds = std::max(1.0, 4 * blocks / (layout.tensor * layout.replicas()));
  if (layout.replicas() == 1) {
    return products;
  }
  return products + (ZeroShards(layout.zero).optimizer
                         ? 2 * DataParallelSeconds(point, CollectiveKind::kAllToAll, bytes, rounds)
                         : DataParallelSeconds(point, CollectiveKind::kBroadcast, bytes, 4 * blocks));
}

double PassingSeconds(const PlanPoint& point, double owned) {
  const Efficiencies& e = point.stack.efficiencies;
  const std::int64_t halves = point.dtype() == DType::kFloat32 ? 0 : SizeOf(RestOfMaster(point.dtype()));
  const std::int64_t weight = point.config.layout.offload == Offload::kFull ? point.prices.Sizes(point).element() : 0;
  const double state = owned * static_cast<double>(weight + halves + MomentsOf(point) * SizeOf(point.moments()));
  // Stages 1 and 2 gather weights on the device and write them back whole.
  const ZeroPolicy shards = ZeroShards(point.config.layout.zero);
  const double gathered =
      shards.optimizer && !shards.parameters ? owned * point.shards() * static_cast<double>(weight) : 0;
  const int on_node = std::min(point.config.layout.ranks(), point.cluster.devices_per_node);
  return std::max({(state + gathered) / (point.cluster.host_link.bandwidth * e.host_link),
                   (2 * state + gathered) * on_node / (point.cluster.host_bandwidth * e.host_memory),
                   owned * point.prices.UpdateBytes(point) / (point.cluster.device.memory_bandwidth * e.memory)});
}

}  // namespace trireme
