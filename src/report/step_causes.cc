#include "report/step_causes.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/pricing/price_model.h"

namespace trireme {

const std::vector<CauseField>& CauseFields() {
  static const std::vector<CauseField> kFields = {
      {"data", &StepCauses::data},          {"forward", &StepCauses::forward},   {"backward", &StepCauses::backward},
      {"tensor", &StepCauses::tensor},      {"replicas", &StepCauses::replicas}, {"pipeline", &StepCauses::pipeline},
      {"optimizer", &StepCauses::optimizer}};
  return kFields;
}

std::string TimersLine(const StepCauses& causes) {
  std::string line = "timers (s)";
  for (const CauseField& field : CauseFields()) {
    line += fmt::format(" | {} {:.4f}", field.name, causes.*field.member);
  }
  return line;
}

StepCauses MeasuredCauses(const PhaseTimes& times) {
  return {.data = times.Phase("batch"),
          .forward = times.Phase("forward"),
          .backward = times.Phase("backward"),
          .tensor = times.Group("tensor") + times.GroupsFrom("context"),
          .replicas = times.Group("data") + times.Group("tied"),
          .pipeline = times.Group("pipeline") + times.Phase("receive") + times.Phase("send"),
          .optimizer = times.Phase("reduce") + times.Phase("norm") + times.Phase("update") + times.Group("world")};
}

StepCauses PredictedCauses(const PlanPoint& point, const StepEstimate& estimate) {
  const auto micro_batches = static_cast<double>(point.micro_batches());
  const LocalSizes sizes = point.prices.Sizes(point);
  ModuleTime first;
  const std::size_t places = estimate.blocks.size();
  for (std::size_t place = 0; place < places; place += static_cast<std::size_t>(point.config.layout.pipeline)) {
    first += TimeOfBlock(point, sizes) * static_cast<double>(estimate.blocks[place]);
    if (place == 0) {
      first += point.prices.Embedding(point, sizes);
    }
    if (place + 1 == places) {
      first += point.prices.Head(point, sizes);
    }
  }
  const StepTerms& terms = estimate.terms;
  StepCauses causes;
  const auto exchanged = [](const WorkTime& work) { return work.tensor + work.context; };
  const double backward_exchanged = exchanged(first.backward_input) + exchanged(first.backward_weight);
  causes.forward = micro_batches * (first.forward.total() - exchanged(first.forward));
  causes.tensor = micro_batches * (exchanged(first.forward) + backward_exchanged);
  causes.backward =
      micro_batches * (first.backward_input.total() + first.backward_weight.total() - backward_exchanged) +
      terms.accumulate;
  causes.replicas = terms.data + terms.gather + terms.compress;
  causes.optimizer = terms.optimizer + terms.offload + terms.fixed;
  // What is left of the step: the other stages' work.
  causes.pipeline = point.config.layout.pipeline > 1 ? std::max(0.0, estimate.seconds - causes.total()) : 0;
  return causes;
}

}  // namespace trireme
