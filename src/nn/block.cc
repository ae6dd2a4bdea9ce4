#include "nn/block.h"

#include "lowering/operands.h"

namespace trireme {

Block::Block(const ModuleContext& context, const LocalSizes& sizes, std::int64_t layer, char* weights)
    : context_(context),
      sizes_(sizes),
      program_(PlanBlock(context.model, sizes)),
      weights_(weights),
      run_context_{.ops = context.ops,
                   .region = context.region,
                   .parameters = context.parameters,
                   .gradients = &context.gradients,
                   .model = context.model,
                   .slopes = context.slopes,
                   .angles = RotaryAnglesOf(context.model, layer),
                   .module = layer + 1,
                   .rows = context.table.OfModule(layer + 1),
                   .sequence_group = context.sequence_group,
                   .heads_group = context.heads_group,
                   .ring_group = context.ring_group,
                   .device = context.device},
      runner_(run_context_, sizes_, program_) {}

Module::Uses Block::uses() const {
  const ParameterUse own{.module = run_context_.module, .own = true, .tied = false};
  const ParameterUse none{.module = run_context_.module, .own = false, .tied = false};
  const auto use = [&](const std::vector<BlockStep>& steps, Owner owner) { return HasOperand(steps, owner) ? own : none; };
  return {.forward = use(program_.forward, Owner::kParameter),
          .backward_input = use(program_.backward, Owner::kParameter),
          .backward_weight = use(program_.backward_weight, Owner::kParameter),
          .forward_gradients = use(program_.forward, Owner::kGradient),
          .input_gradients = use(program_.backward, Owner::kGradient),
          .weight_gradients = use(program_.backward_weight, Owner::kGradient)};
}

void Block::Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) {
  runner_.Run(
      program_.forward,
      {.micro_batch = micro_batch, .kept = kept, .scratch = context_.scratch, .weights = weights_, .output = out});
}

Tensor Block::BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor& grad_in) {
  runner_.Run(program_.backward, {.micro_batch = micro_batch,
                                  .kept = kept,
                                  .scratch = context_.scratch,
                                  .weights = weights_,
                                  .output = {},
                                  .grad_output = grad_out,
                                  .grad_input = grad_in});
  return grad_in;
}

void Block::BackwardWeight(const MicroBatch& micro_batch, char* kept) {
  runner_.Run(program_.backward_weight,
              {.micro_batch = micro_batch, .kept = kept, .scratch = context_.scratch, .weights = weights_});
}

}  // namespace trireme
