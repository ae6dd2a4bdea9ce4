#include "nn/module.h"

#include <utility>

#include "lowering/operands.h"

namespace trireme {

namespace {

bool IsBlock(const ModelConfig& model, std::int64_t module) { return module > 0 && module < model.modules() - 1; }

}  // namespace

Module::Module(const ModuleContext& context, const LocalSizes& sizes, ModuleProgram program, std::int64_t number,
               char* weights)
    : sizes_(sizes),
      program_(std::move(program)),
      rows_(RowsOf(context.table, program_, number)),
      scratch_(context.scratch),
      weights_(weights),
      run_context_{
          .ops = context.ops,
          .tensor_group = context.tensor_group,
          .parameters = context.parameters,
          .gradients = &context.gradients,
          .model = context.model,
          .slopes = context.slopes,
          .angles = IsBlock(context.model, number) ? RotaryAnglesOf(context.model, number - 1) : RotaryAngles{},
          .module = number,
          .rows = rows_,
          .z_loss = context.z_loss,
          .sequence_group = context.sequence_group,
          .heads_group = context.heads_group,
          .ring_group = context.ring_group,
          .device = context.device},
      runner_(run_context_, sizes_, program_) {}

Module::Uses Module::uses() const {
  const auto use = [this](const std::vector<ProgramStep>& steps, Owner owner) {
    const PartUse part = UseOf(program_, steps, owner);
    return ParameterUse{.module = run_context_.module, .own = part.own, .tied = part.tied};
  };
  return {.forward = use(program_.forward, Owner::kParameter),
          .backward_input = use(program_.backward, Owner::kParameter),
          .backward_weight = use(program_.backward_weight, Owner::kParameter),
          .forward_gradients = use(program_.forward, Owner::kGradient),
          .input_gradients = use(program_.backward, Owner::kGradient),
          .weight_gradients = use(program_.backward_weight, Owner::kGradient)};
}

void Module::Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) {
  const Tensor given[] = {{}, out};
  runner_.Run(micro_batch.training ? program_.forward : program_.Evaluation(), Call(micro_batch, kept, given));
}

Tensor Module::BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor& grad_in) {
  const Tensor given[] = {{}, {}, grad_out, grad_in};
  runner_.Run(program_.backward, Call(micro_batch, kept, given));
  return program_.input_gradient == kGradInput     ? grad_in
         : program_.input_gradient == kModuleInput ? Input(kept)
                                                   : Tensor{};
}

void Module::BackwardWeight(const MicroBatch& micro_batch, char* kept) {
  runner_.Run(program_.backward_weight, Call(micro_batch, kept));
}

}  // namespace trireme
