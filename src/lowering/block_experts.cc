// The rules of experts: which steps their operations become in forward and backward.
#include "lowering/block_lowering.h"

namespace trireme {

void Lowering::ForwardRoute(Pass& pass, const BlockOperation& route) {
  const auto rows = [&](int width) { return NewBuffer(DType::kInt32, {sizes_.tokens, width}); };
  Choice& choice = pass.choice;
  const auto chosen = static_cast<int>(sizes_.chosen);
  choice.logits = pass.value[static_cast<std::size_t>(route.input)];
  choice.weights = pass.value[static_cast<std::size_t>(route.output)] = ForExactValue(route.output);
  Route<TensorId> step{.router = route.router, .logits = {choice.logits}, .weights = {choice.weights}};
  if (recomputed_) {
    choice.chosen = chosen_;
    step.kept = {chosen_};
  } else {
    choice.chosen = chosen_ = rows(chosen);
    step.chosen = {chosen_};
  }
  choice.order = NewBuffer(DType::kInt32, {sizes_.rows()});
  choice.positions = rows(chosen);
  choice.offsets = NewBuffer(DType::kInt32, {sizes_.experts + 1});
  Emit(step);
  Emit(OrderRows<TensorId>{.chosen = {choice.chosen},
                           .order = {choice.order},
                           .positions = {choice.positions},
                           .offsets = {choice.offsets}});
  if (purpose_ == ProgramPurpose::kTraining && !recomputed_) {
    program_.expert_load = NewBuffer(kStatisticsFloat, {sizes_.experts});
    program_.buffers.back().area = Area::kWeights;
    Emit(AddLoad<TensorId>{.offsets = {choice.offsets}, .load = {program_.expert_load}});
  }
}

void Lowering::ForwardCombine(Pass& pass, const BlockOperation& combine) {
  const auto value = [&](int number) { return number == kNoId ? kNoId : pass.value[static_cast<std::size_t>(number)]; };
  const BufferId out = pass.value[static_cast<std::size_t>(combine.output)] = ForValue(combine.output);
  Emit(CombineRows<TensorId>{.rows = {value(combine.input)},
                             .positions = {pass.choice.positions},
                             .added = {value(combine.added)},
                             .gate = {value(combine.gate)},
                             .to = {out}});
}

GroupedProductStep Lowering::GroupedProductOf(const BlockOperation& linear, GroupedProduct product,
                                              const Choice& choice) const {
  return {.product = product,
          .offsets = choice.offsets,
          .weight = linear.weight,
          .linear = LinearOf(linear),
          .rows = Rows(linear.output),
          .outputs = Columns(linear.output),
          .inputs = Columns(linear.input),
          .experts = sizes_.experts};
}

void Lowering::BackwardCombine(const BlockOperation& combine) {
  const BufferId gradient = Gradient(combine.output);
  Gradient(combine.input) = ForValue(combine.input);
  EmitGather(gradient, Gradient(combine.input), kept_.choice);
  if (combine.added == kNoId) {
    return;
  }
  if (combine.gate == kNoId) {
    Gradient(combine.added) = gradient;
    return;
  }
  Gradient(combine.added) = ForValue(combine.added);
  Gradient(combine.gate) = ForValue(combine.gate);
  Emit(GateBackward<TensorId>{.grad_out = {gradient},
                              .added = {Recomputed(combine.added)},
                              .gate = {kept_.value[static_cast<std::size_t>(combine.gate)]},
                              .grad_added = {Gradient(combine.added)},
                              .grad_gate = {Gradient(combine.gate)}});
}

void Lowering::BackwardGrouped(int i) {
  const BlockOperation& linear = Operation(i);
  GroupedProductStep product = GroupedProductOf(linear, GroupedProduct::kInputGradient, kept_.choice);
  product.a = Gradient(linear.output);
  product.c = Gradient(linear.input) = ForValue(linear.input);
  Emit(product);
  if (!block_.frozen()) {
    waiting_.push_back({.operation = i, .gradient = product.a});
  }
}

void Lowering::BackwardWeighted(const BlockOperation& activation) {
  Gradient(activation.input) = ForValue(activation.input);
  Gradient(activation.choice) = ForExactValue(activation.choice);
  Emit(WeightedActivationBackward<TensorId>{.grad_out = {Gradient(activation.output)},
                                            .from = {Recomputed(activation.input)},
                                            .weights = {kept_.choice.weights},
                                            .order = {kept_.choice.order},
                                            .grad_from = {Gradient(activation.input)},
                                            .grad_weights = {Gradient(activation.choice)}});
}

void Lowering::BackwardDispatch(const BlockOperation& dispatch) {
  Gradient(dispatch.input) = ForValue(dispatch.input);
  Emit(CombineRows<TensorId>{
      .rows = {Gradient(dispatch.output)}, .positions = {kept_.choice.positions}, .to = {Gradient(dispatch.input)}});
}

void Lowering::BackwardRoute(const BlockOperation& route) {
  const TensorId token_weights = {static_cast<int>(BatchTensor::kWeights)};
  Gradient(route.input) = ForValue(route.input);
  RouteBackward<TensorId> step{.router = route.router,
                               .grad_weights = {Gradient(route.output)},
                               .logits = {kept_.choice.logits},
                               .chosen = {kept_.choice.chosen},
                               .token_weights = token_weights,
                               .grad_logits = {Gradient(route.input)}};
  if (route.balance) {
    // Counts are per whole sequence, whose tokens lie on all ranks of the context group.
    step.counts = {NewBuffer(kStatisticsFloat, {sizes_.batch, sizes_.experts + 1})};
    Emit(CountChosen<TensorId>{.chosen = step.chosen, .token_weights = token_weights, .counts = step.counts});
    if (sizes_.context > 1) {
      Emit(CollectiveStep{.group = ProgramGroup::kContext, .from = step.counts.id, .to = step.counts.id});
    }
  }
  Emit(step);
}

}  // namespace trireme
