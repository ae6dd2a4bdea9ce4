// Seconds of a step's collectives between replicas: gradients and parameters, whole or in ZeRO's shards.
#pragma once

#include "base/accounting.h"
#include "planner/pricing/plan_point.h"

namespace trireme {

// Bytes of a gradient as it travels.
double GradientBytes(const PlanPoint& point);

// `bytes` in so many calls: over all replicas, and within the ranks that ZeRO shards over.
double DataParallelSeconds(const PlanPoint& point, CollectiveKind kind, double bytes, double calls);
double ShardSeconds(const PlanPoint& point, CollectiveKind kind, double bytes, double calls);

// Seconds of reducing so many gradients between replicas; those that ZeRO shards: within its groups, then between the
// copies of each.
double ReductionSeconds(const PlanPoint& point, double gradients, double calls);
// ZeRO 3's gather of so many parameters for one use.
double GatherSeconds(const PlanPoint& point, double parameters, double calls);
// The ranks that hold the same experts reduce their gradients and gather them, apart from all other parameters.
double ExpertReductionSeconds(const PlanPoint& point, double gradients, double calls);
double ExpertGatherSeconds(const PlanPoint& point, double parameters, double calls);
// Updated parameters go to all who hold them: one gather, or a broadcast by each owner in turn.
double UpdatedSeconds(const PlanPoint& point, double bytes);
// What a program spends on cutting and copying each tensor's shards, where ZeRO 1 works tensor by tensor: nothing hides
// it. The number of tensors grows with the layers, not with their width.
double ShardCopySeconds(const PlanPoint& point, double parameters);

}  // namespace trireme
