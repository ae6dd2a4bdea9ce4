#include "nn/block.h"

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
  return {.forward = own,
          .backward_input = own,
          .backward_weight = program_.WeightPartReadsParameters() ? own : none,
          .forward_gradients = none,
          .input_gradients = program_.in_parts ? none : own,
          .weight_gradients = program_.in_parts ? own : none};
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
