// Our trainer: kernels, collectives and bytes are those that cost/ describes, at the rates of the cluster file and the
// stack's efficiencies. What it counts equals what a run counts.
#pragma once

#include "planner/pricing/price_model.h"

namespace trireme {

class CountedPrices : public PriceModel {
 public:
  bool prices_every_recipe() const override { return true; }
  LocalSizes Sizes(const PlanPoint& point) const override;
  std::int64_t Vocabulary(const PlanPoint& point) const override;
  double Parameters(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks,
                    int virtual_stage, const CountedParameters& counted) const override;
  double ParameterBytes(const PlanPoint& point) const override;
  std::function<StageMemory(int stage)> Memory(const PlanPoint& point, const ModelAccount& account,
                                               const std::vector<std::int64_t>& blocks,
                                               PipelineClock& clock) const override;
  double ReportedMemory(const PlanPoint& point, const StageMemory& memory) const override;
  double HardwareFlops(const PlanPoint& point, const ModelAccount& account) const override;
  ModuleTime Block(const PlanPoint& point, const LocalSizes& sizes, const ModuleProgram& program) const override;
  ModuleTime Head(const PlanPoint& point, const LocalSizes& sizes) const override;
  double Accumulation(const PlanPoint& point, const StepParameters& of_stage) const override;
  double UpdateBytes(const PlanPoint& point) const override;
  double Directions(const PlanPoint& point) const override;
};

}  // namespace trireme
