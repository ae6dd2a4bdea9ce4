#include "planner/pricing/price_model.h"

#include "cost/step_cost.h"
#include "planner/pricing/block_time.h"
#include "planner/pricing/counted_prices.h"
#include "planner/pricing/measured_prices.h"
#include "planner/pricing/published_prices.h"

namespace trireme {
namespace {

// Adafactor and its kin read and write their state in several unfused passes.
constexpr double kUnfusedOptimizer = 6;

}  // namespace

ProductFormat ProductFormatOf(const RunConfig& config) { return ParseProductFormat(config.train.dtype); }

DType DTypeOf(const RunConfig& config) {
  return ProductFormatOf(config) == ProductFormat::kNative ? WorkingDType(config.train.dtype) : DType::kBFloat16;
}

const PriceModel& ChoosePrices(const Cluster& cluster, const StackState& stack, DType dtype) {
  static const CountedPrices counted;
  static const MeasuredPrices measured;
  static const PublishedPrices published;
  if (!stack.policy.counted_costs) {
    return published;
  }
  const bool has_rates =
      stack.policy.measured_rates && cluster.measured && cluster.measured->Rank(dtype, 1).has_value();
  return has_rates ? static_cast<const PriceModel&>(measured) : counted;
}

ModuleTime PriceModel::Embedding(const PlanPoint& point, const LocalSizes& s) const {
  const ModuleCost cost = CostOfEmbedding(s, point.config.model);
  ModuleTime time;
  time.forward.memory = MemorySeconds(point, static_cast<double>(cost.forward.bytes_touched));
  time.forward.tensor = TensorSeconds(point, cost.forward.tensor);
  time.backward_input.memory = MemorySeconds(point, static_cast<double>(cost.backward_input.bytes_touched));
  time.backward_input.tensor = TensorSeconds(point, cost.backward_input.tensor);
  return time;
}

double PriceModel::ExpertParameters(const PlanPoint& /*point*/, const ModelAccount& /*account*/,
                                    const std::vector<std::int64_t>& /*blocks*/, int /*virtual_stage*/) const {
  return 0;
}

double PriceModel::Message(const PlanPoint& point, double bytes) const {
  return MessageSeconds(bytes, point.cluster, point.config.layout, point.stack.efficiencies.message_link);
}

double PriceModel::Collective(const PlanPoint& point, CollectiveKind kind, DType /*dtype*/, double bytes, double calls,
                              const GroupPlacement& group) const {
  return CollectiveSeconds(kind, bytes, calls, group, point.cluster, OuterShares(point));
}

double PriceModel::Update(const PlanPoint& point, double /*parameters*/, double owned) const {
  const double passes = point.fused_optimizer ? 1 : kUnfusedOptimizer;
  return owned * UpdateBytes(point) * passes /
         (point.cluster.device.memory_bandwidth * point.stack.efficiencies.memory);
}

double PriceModel::Fixed(const PlanPoint& point) const { return point.stack.efficiencies.step_seconds; }

double PriceModel::Reductions(const PlanPoint& /*point*/, double /*parameters*/) const { return 1; }

double PriceModel::StagesSharing(const PlanPoint& /*point*/) const { return 0; }

}  // namespace trireme
