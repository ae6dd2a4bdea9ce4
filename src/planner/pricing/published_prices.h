// A program known by its publications: textbook formulas with the traits of its file (TimeTraits, MemoryTraits).
#pragma once

#include "planner/pricing/price_model.h"

namespace trireme {

class PublishedPrices final : public PriceModel {
 public:
  bool prices_every_recipe() const override { return false; }
  LocalSizes Sizes(const PlanPoint& point) const override;
  std::int64_t Vocabulary(const PlanPoint& point) const override;
  double Parameters(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks,
                    int virtual_stage, const CountedParameters& counted) const override;
  double ExpertParameters(const PlanPoint& point, const ModelAccount& account, const std::vector<std::int64_t>& blocks,
                          int virtual_stage) const override;
  double ParameterBytes(const PlanPoint& point) const override;
  std::function<StageMemory(int stage)> Memory(const PlanPoint& point, const ModelAccount& account,
                                               const std::vector<std::int64_t>& blocks,
                                               PipelineClock& clock) const override;
  double ReportedMemory(const PlanPoint& point, const StageMemory& memory) const override;
  // By Megatron's formula, which their logs print.
  double HardwareFlops(const PlanPoint& point, const ModelAccount& account) const override;
  ModuleTime Block(const PlanPoint& point, const LocalSizes& sizes, const ModuleProgram& program) const override;
  ModuleTime Head(const PlanPoint& point, const LocalSizes& sizes) const override;
  double Accumulation(const PlanPoint& point, const StepParameters& of_stage) const override;
  double UpdateBytes(const PlanPoint& point) const override;
  double Directions(const PlanPoint& point) const override;
  double Reductions(const PlanPoint& point, double parameters) const override;
};

}  // namespace trireme
