// Our trainer on a machine that `trireme calibrate` measured: counts as CountedPrices has them, seconds by the laws of
// the cluster file (MeasuredTime).
#pragma once

#include "planner/pricing/counted_prices.h"

namespace trireme {

class MeasuredPrices final : public CountedPrices {
 public:
  ModuleTime Block(const PlanPoint& point, const LocalSizes& sizes, const ModuleProgram& program) const override;
  ModuleTime Head(const PlanPoint& point, const LocalSizes& sizes) const override;
  ModuleTime Embedding(const PlanPoint& point, const LocalSizes& sizes) const override;
  double Accumulation(const PlanPoint& point, const StepParameters& of_stage) const override;
  double Message(const PlanPoint& point, double bytes) const override;
  double Collective(const PlanPoint& point, CollectiveKind kind, DType dtype, double bytes, double calls,
                    const GroupPlacement& group) const override;
  double Update(const PlanPoint& point, double parameters, double owned) const override;
  double Fixed(const PlanPoint& point) const override;
  double Reductions(const PlanPoint& point, double parameters) const override;
  double StagesSharing(const PlanPoint& point) const override;
};

}  // namespace trireme
