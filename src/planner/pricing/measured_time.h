// Seconds of our own program on a machine that `trireme calibrate` measured: the trainer's operations, one by one, by
// the laws of the cluster file. Ranks that are threads of one host share its cores.
#pragma once

#include "planner/pricing/collective_time.h"
#include "planner/pricing/module_time.h"
#include "planner/pricing/plan_point.h"

namespace trireme {

class MeasuredTime {
 public:
  // Requires a machine on which the point's type was measured. Refers to the point.
  explicit MeasuredTime(const PlanPoint& point);

  // Prices one micro batch. Seconds are those of a rank while all ranks of its stage work: see SharingOf.
  ModuleTime Block(const LocalSizes& sizes, const ModuleProgram& program) const;
  ModuleTime Head(const LocalSizes& sizes) const;
  ModuleTime Embedding(const LocalSizes& sizes) const;

  // Collectives by Traffic's bytes, of a group of `ranks`; dtype: of what is sent.
  double Collective(CollectiveKind kind, DType dtype, double bytes, double calls, const GroupPlacement& group) const;
  double TensorSeconds(const Traffic& traffic) const;
  double ContextSeconds(const Traffic& traffic) const;
  double Message(double bytes) const;

  // What a step does once with `parameters` of a stage: the sum for the norm and the update of owned ones, while all
  // ranks do so.
  double Update(double parameters, double owned) const;
  // What each micro batch adds under ZeRO 2 and 3: staging is cleared, and the owned part added.
  double Staging(double parameters, double owned) const;
  // The exchange of the step's numbers, the tied table's sum, what is left of a step.
  double Fixed(double tied_parameters) const;

  // How much longer work takes while this many ranks of a machine are at it: above 1 where they outnumber the cores.
  double SharingOf(double ranks) const;
  // The slowdown for all ranks of the layout over that for the ranks of one stage: what a pipeline's stages share.
  double stages_sharing() const { return all_sharing_ / stage_sharing_; }

 private:
  double Product(ProductPass pass, std::int64_t m, std::int64_t n, std::int64_t k, ProductFormat format) const;
  double Work(RankWork work, std::int64_t elements, int calls = 1) const;
  double GroupSeconds(const Traffic& traffic, const GroupPlacement& group) const;
  // All steps of a program; collectives of the tensor group by `cost`.
  ModuleTime Steps(const LocalSizes& sizes, const ModuleProgram& program, const ModuleCost& cost) const;
  // One step, without collectives.
  struct StepPrice;
  WorkTime StepTime(const ProgramStep& step, const ModuleProgram& program, const LocalSizes& sizes) const;

  const PlanPoint* point_;
  RankRates rates_;
  int threads_ = 1;
  double stage_sharing_ = 1;
  double all_sharing_ = 1;
};

}  // namespace trireme
