#include "planner/pricing/data_parallel_time.h"

#include <cmath>

#include "base/int8_block.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/price_model.h"

namespace trireme {
namespace {

// The type of gathered weights or reduced gradients. int8 blocks are moved alone: any type's price will do.
DType SentType(const PlanPoint& point, CollectiveKind kind) {
  if (kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll) {
    return point.dtype();
  }
  return point.config.layout.reduce == WireFormat::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

constexpr double kInt8Bytes = 4.0 * static_cast<double>(kInt8Words) / static_cast<double>(kInt8Block);

// Seconds in which numbers become int8 blocks and blocks become numbers of so many bytes each.
double PackSeconds(const PlanPoint& point, double numbers, double bytes) {
  return 2 * numbers * (bytes + kInt8Bytes) / (point.cluster.device.memory_bandwidth * point.stack.efficiencies.memory);
}

}  // namespace

double DataParallelSeconds(const PlanPoint& point, CollectiveKind kind, double bytes, double calls) {
  return point.prices.Collective(point, kind, SentType(point, kind), bytes, calls,
                                 PlaceData(point.cluster, point.config.layout));
}

double ShardSeconds(const PlanPoint& point, CollectiveKind kind, double bytes, double calls) {
  return point.prices.Collective(point, kind, SentType(point, kind), bytes, calls,
                                 PlaceShards(point.cluster, point.config.layout, point.shards()));
}

double ReductionSeconds(const PlanPoint& point, double gradients, double calls) {
  const double bytes = gradients * GradientBytes(point);
  const bool shards = ZeroShards(point.config.layout.zero).optimizer;
  if (point.config.layout.reduced_as() == WireFormat::kInt8) {
    // Parts come by an all-to-all; stage 0 gathers the sums, and groups that are copies add theirs in fp32.
    const double again = shards ? 0 : ShardSeconds(point, CollectiveKind::kAllGather, bytes, calls);
    const double copies = point.config.layout.copies() > 1 ? DataParallelSeconds(point, CollectiveKind::kAllReduce,
                                                                                 4 * gradients / point.shards(), calls)
                                                           : 0;
    return ShardSeconds(point, CollectiveKind::kAllToAll, bytes, calls) + again + copies +
           (shards ? 1 : 2) * PackSeconds(point, gradients, 4);
  }
  if (shards && point.shards() == point.config.layout.replicas()) {
    return DataParallelSeconds(point, CollectiveKind::kReduceScatter, bytes, calls);
  }
  return DataParallelSeconds(point, CollectiveKind::kAllReduce, bytes, calls);
}

double GatherSeconds(const PlanPoint& point, double parameters, double calls) {
  const double whole = point.prices.ParameterBytes(point);
  double each = whole;
  double packing = 0;
  switch (point.config.layout.gathered_as()) {
    case WireFormat::kExact:
      break;
    case WireFormat::kBFloat16:
      each = static_cast<double>(SizeOf(DType::kBFloat16));
      break;
    case WireFormat::kInt8:
      each = kInt8Bytes;
      packing = PackSeconds(point, parameters, whole);
      break;
  }
  return ShardSeconds(point, CollectiveKind::kAllGather, parameters * each, calls) + packing;
}

double ExpertReductionSeconds(const PlanPoint& point, double gradients, double calls) {
  if (gradients <= 0) {
    return 0;
  }
  const bool shards = ZeroShards(point.config.layout.zero).optimizer;
  const CollectiveKind kind = shards ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
  return point.prices.Collective(point, kind, SentType(point, kind), gradients * GradientBytes(point), calls,
                                 PlaceExpertReplicas(point.cluster, point.config.layout));
}

double ExpertGatherSeconds(const PlanPoint& point, double parameters, double calls) {
  if (parameters <= 0) {
    return 0;
  }
  return point.prices.Collective(point, CollectiveKind::kAllGather, SentType(point, CollectiveKind::kAllGather),
                                 parameters * point.prices.ParameterBytes(point), calls,
                                 PlaceExpertReplicas(point.cluster, point.config.layout));
}

double UpdatedSeconds(const PlanPoint& point, double bytes) {
  const bool turns = point.stack.time.broadcasts_shards;
  return ShardSeconds(point, turns ? CollectiveKind::kBroadcast : CollectiveKind::kAllGather, bytes,
                      turns ? point.shards() : 1);
}

double ShardCopySeconds(const PlanPoint& point, double parameters) {
  const TimeTraits& time = point.stack.time;
  const ParallelLayout& layout = point.config.layout;
  if (point.shards() == 1 || time.shard_kernels + time.shard_copy_bytes == 0) {
    return 0;
  }
  const double layers = std::ceil(static_cast<double>(point.config.model.layers) / layout.pipeline);
  const double copies = (layers * time.layer_tensors + 1) * point.shards();
  return copies * time.shard_kernels * point.cluster.device.launch +
         parameters * time.shard_copy_bytes / (point.cluster.device.memory_bandwidth * point.stack.efficiencies.memory);
}

double GradientBytes(const PlanPoint& point) {
  if (const WireFormat sent = point.config.layout.reduced_as(); sent != WireFormat::kExact) {
    return sent == WireFormat::kInt8 ? kInt8Bytes : static_cast<double>(SizeOf(DType::kBFloat16));
  }
  const TimeTraits& time = point.stack.time;
  return point.accumulates_in_fp32() && time.gradient_bytes_bf16 > 0 ? time.gradient_bytes_bf16 : time.gradient_bytes;
}

}  // namespace trireme
