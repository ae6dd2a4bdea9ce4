#include "planner/pricing/measured_prices.h"

#include "base/shape.h"
#include "planner/pricing/measured_time.h"

namespace trireme {

ModuleTime MeasuredPrices::Block(const PlanPoint& point, const LocalSizes& s, const ModuleProgram& program) const {
  return MeasuredTime(point).Block(s, program);
}

ModuleTime MeasuredPrices::Head(const PlanPoint& point, const LocalSizes& s) const {
  return MeasuredTime(point).Head(s);
}

ModuleTime MeasuredPrices::Embedding(const PlanPoint& point, const LocalSizes& s) const {
  return MeasuredTime(point).Embedding(s);
}

// Products of weight gradients were measured with their accumulation.
double MeasuredPrices::Accumulation(const PlanPoint& point, const StepParameters& of_stage) const {
  const double staged = of_stage.trained - of_stage.whole;
  return ZeroShards(point.config.layout.zero).gradients ? MeasuredTime(point).Staging(staged, staged / point.shards())
                                                        : 0;
}

double MeasuredPrices::Message(const PlanPoint& point, double bytes) const {
  return point.config.layout.pipeline > 1 ? MeasuredTime(point).Message(bytes) : CountedPrices::Message(point, bytes);
}

double MeasuredPrices::Collective(const PlanPoint& point, CollectiveKind kind, DType dtype, double bytes, double calls,
                                  const GroupPlacement& group) const {
  return MeasuredTime(point).Collective(kind, dtype, bytes, calls, group);
}

double MeasuredPrices::Update(const PlanPoint& point, double parameters, double owned) const {
  return MeasuredTime(point).Update(parameters, owned);
}

double MeasuredPrices::Fixed(const PlanPoint& point) const {
  const double table = static_cast<double>(Vocabulary(point)) * static_cast<double>(point.config.model.hidden);
  return MeasuredTime(point).Fixed(point.config.model.tie_embeddings ? table : 0);
}

// The trainer reduces each module's bucket as soon as it is complete.
double MeasuredPrices::Reductions(const PlanPoint& point, double /*parameters*/) const {
  return static_cast<double>(CeilDiv(point.config.model.layers, point.config.layout.pipeline)) + 1;
}

double MeasuredPrices::StagesSharing(const PlanPoint& point) const { return MeasuredTime(point).stages_sharing(); }

}  // namespace trireme
