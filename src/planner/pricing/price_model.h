// How one training step of a program is priced: what a rank holds and computes, and the seconds of each part. There are
// three models, and ChoosePrices says which one a program on a machine has:
//
//   CountedPrices    our trainer: the exact counts of cost/, by the cluster's links and the stack's efficiencies
//   MeasuredPrices   the same counts on a machine that `trireme calibrate` measured, by the laws of its operations
//   PublishedPrices  a program known by its publications: textbook formulas with the traits of its file
//
// A model has no state: the point says all. What the three share is in functions over a point (block_time.h,
// data_parallel_time.h, update_time.h, collective_time.h).
#pragma once

#include <functional>

#include "planner/pricing/collective_time.h"
#include "planner/pricing/memory_estimate.h"
#include "planner/pricing/module_time.h"
#include "planner/pricing/plan_point.h"

namespace trireme {

// Trained parameters of a stage, those of them that ZeRO 3 keeps whole, and those of experts that the expert axis
// divides, which other ranks hold copies of than of the rest.
struct StepParameters {
  double trained = 0;
  double whole = 0;
  double experts = 0;
};

class PriceModel {
 public:
  virtual ~PriceModel() = default;

  // Whether every choice of a recipe has a price. Otherwise those alone that StackFeatures names: the optimizer is
  // AdamW, adapters, PowerSGD by rank, kinds of context exchange, replicas' messages in fewer bits and activations in
  // host memory are not known.
  virtual bool prices_every_recipe() const = 0;

  // What a rank works with: its extents, its rows of the vocabulary, the parameters of a virtual stage. The sum of
  // these over the chunks of a stage is what a rank of it holds. blocks: BlocksOfStages(point).
  virtual LocalSizes Sizes(const PlanPoint& point) const = 0;
  virtual std::int64_t Vocabulary(const PlanPoint& point) const = 0;
  virtual double Parameters(const PlanPoint& point, const ModelAccount& account,
                            const std::vector<std::int64_t>& blocks, int virtual_stage,
                            const CountedParameters& counted) const = 0;
  // Those of them that belong to the expert axis.
  virtual double ExpertParameters(const PlanPoint& point, const ModelAccount& account,
                                  const std::vector<std::int64_t>& blocks, int virtual_stage) const;
  // A parameter as it is gathered, in bytes.
  virtual double ParameterBytes(const PlanPoint& point) const = 0;
  // The memory of any stage of the pipeline. The function refers to the arguments. Error where the layout cannot be
  // cut.
  virtual std::function<StageMemory(int stage)> Memory(const PlanPoint& point, const ModelAccount& account,
                                                       const std::vector<std::int64_t>& blocks,
                                                       PipelineClock& clock) const = 0;
  // The part of a stage's memory that the program's logs report.
  virtual double ReportedMemory(const PlanPoint& point, const StageMemory& memory) const = 0;
  // FLOPs of a step over all devices, recomputation included.
  virtual double HardwareFlops(const PlanPoint& point, const ModelAccount& account) const = 0;

  // Seconds of one micro batch. Block: one whose attention has the window of `sizes`; program: the model's block
  // lowered for them.
  virtual ModuleTime Block(const PlanPoint& point, const LocalSizes& sizes, const ModuleProgram& program) const = 0;
  virtual ModuleTime Head(const PlanPoint& point, const LocalSizes& sizes) const = 0;
  virtual ModuleTime Embedding(const PlanPoint& point, const LocalSizes& sizes) const;
  // What it spends on a stage's gradients beyond their products.
  virtual double Accumulation(const PlanPoint& point, const StepParameters& of_stage) const = 0;
  // One message between neighbouring stages.
  virtual double Message(const PlanPoint& point, double bytes) const;

  // Seconds of a step: a collective between replicas of so many bytes in so many calls; the update of a stage's
  // parameters on the device, of which a rank owns `owned`; what an update does beyond passing over its state; what a
  // step costs once.
  virtual double Collective(const PlanPoint& point, CollectiveKind kind, DType dtype, double bytes, double calls,
                            const GroupPlacement& group) const;
  virtual double Update(const PlanPoint& point, double parameters, double owned) const;
  virtual double UpdateBytes(const PlanPoint& point) const = 0;  // of a parameter, moved by its update
  virtual double Directions(const PlanPoint& point) const = 0;
  virtual double Fixed(const PlanPoint& point) const;
  // Calls in which a stage's gradients are reduced.
  virtual double Reductions(const PlanPoint& point, double parameters) const;
  // How much longer the work of all stages takes than that of one where they share cores; 0: they share none.
  virtual double StagesSharing(const PlanPoint& point) const;
};

}  // namespace trireme
