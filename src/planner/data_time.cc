#include "planner/data_time.h"

#include <optional>

#include "planner/collective_time.h"
#include "planner/measured_time.h"
#include "planner/module_time.h"

namespace trireme {
namespace {

// Of gathered weights, and of reduced gradients.
DType SentType(const PlanPoint& point, CollectiveKind kind) {
  if (kind == CollectiveKind::kAllGather) {
    return point.dtype;
  }
  return point.layout.reduce_bf16 ? DType::kBFloat16 : DType::kFloat32;
}

}  // namespace

double DataSeconds(const PlanPoint& point, CollectiveKind kind, double bytes, double calls) {
  if (const std::optional<MeasuredPrice> measured = MeasuredPrice::Of(point)) {
    return measured->Collective(kind, SentType(point, kind), bytes, calls, PlaceData(point.cluster, point.layout));
  }
  return CollectiveSeconds(kind, bytes, calls, PlaceData(point.cluster, point.layout), point.cluster,
                           OuterShares(point));
}

double ShardSeconds(const PlanPoint& point, CollectiveKind kind, double bytes, double calls) {
  const GroupPlacement group = PlaceShards(point.cluster, point.layout, point.shards());
  if (const std::optional<MeasuredPrice> measured = MeasuredPrice::Of(point)) {
    return measured->Collective(kind, SentType(point, kind), bytes, calls, group);
  }
  return CollectiveSeconds(kind, bytes, calls, group, point.cluster, OuterShares(point));
}

double ShardReduction(const PlanPoint& point, double bytes, double calls) {
  if (point.shards() == point.layout.replicas()) {
    return DataSeconds(point, CollectiveKind::kReduceScatter, bytes, calls);
  }
  return DataSeconds(point, CollectiveKind::kAllReduce, bytes, calls);
}

double UpdatedSeconds(const PlanPoint& point, double bytes) {
  const bool turns = point.stack.time.broadcasts_shards;
  return ShardSeconds(point, turns ? CollectiveKind::kBroadcast : CollectiveKind::kAllGather, bytes,
                      turns ? point.shards() : 1);
}

double ParameterBytes(const PlanPoint& point) {
  return point.stack.policy.counted_costs ? static_cast<double>(SizeOf(point.dtype)) : point.stack.time.parameter_bytes;
}

double GradientBytes(const PlanPoint& point) {
  if (point.layout.reduce_bf16) {
    return static_cast<double>(SizeOf(DType::kBFloat16));
  }
  const TimeTraits& time = point.stack.time;
  return point.dtype == DType::kBFloat16 && time.gradient_bytes_bf16 > 0 ? time.gradient_bytes_bf16
                                                                         : time.gradient_bytes;
}

}  // namespace trireme
