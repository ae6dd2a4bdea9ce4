#include "nn/stage.h"

#include <algorithm>

#include "nn/block.h"
#include "nn/embedding.h"
#include "nn/head.h"

namespace trireme {
namespace {

ParameterUse Union(const ParameterUse& a, const ParameterUse& b) {
  return {.module = a.module, .own = a.own || b.own, .tied = a.tied || b.tied};
}

}  // namespace

Stage::Stage(const ModuleContext& context, const StageDescription& description, int chunk, char* slots)
    : context_(context), slots_(slots) {
  const ModuleRange& range = description.Range(chunk);
  const std::int64_t first_block = std::max<std::int64_t>(range.first, 1);
  const LocalSizes& sizes = description.sizes;
  for (std::int64_t module = range.first; module < range.last; ++module) {
    if (module == 0) {
      modules_.push_back(std::make_unique<Embedding>(context_, sizes));
    } else if (module == description.model.modules() - 1) {
      modules_.push_back(std::make_unique<Head>(context_, sizes, HeadChunk(sizes, description.head_chunk)));
    } else {
      const LocalSizes block =
          BlockSizes(sizes, description.layout, module - first_block).ForLayer(description.model, module - 1);
      modules_.push_back(std::make_unique<Block>(context_, block, module - 1));
    }
    offsets_.push_back(kept_bytes_);
    kept_bytes_ += modules_.back()->kept_bytes();
    uses_.push_back(modules_.back()->uses());
  }
}

char* Stage::Kept(std::size_t module, int slot) const { return slots_ + slot * kept_bytes_ + offsets_[module]; }

Tensor Stage::Input(int slot) const { return modules_.front()->Input(Kept(0, slot)); }

template <typename UseOf, typename GradientsOf, typename Run>
void Stage::ForEach(const Walk& walk, UseOf use_of, GradientsOf gradients_of, Run run) {
  const std::size_t count = modules_.size();
  const auto index = [&](std::size_t i) { return walk.reverse ? count - 1 - i : i; };
  const auto gather = [&](std::size_t i) {
    if (i < count && use_of(uses_[index(i)]).any()) {
      context_.parameters.Gather(use_of(uses_[index(i)]));
    }
  };
  gather(0);
  for (std::size_t i = 0; i < count; ++i) {
    gather(i + 1);
    const std::size_t module = index(i);
    const ParameterUse use = use_of(uses_[module]);
    const ParameterUse gradients = gradients_of(uses_[module]);
    if (gradients.any()) {
      context_.gradients.Open(gradients);
    }
    run(module);
    if (on_module_) {
      on_module_();
    }
    if (gradients.any()) {
      context_.gradients.Finish(gradients, walk.last);
    }
    if (use.any()) {
      context_.parameters.Release(use);
    }
  }
}

void Stage::Forward(const MicroBatch& micro_batch, int slot, const Tensor& out) {
  const bool training = micro_batch.training;
  ForEach(
      {.reverse = false, .last = micro_batch.last}, [](const Module::Uses& uses) { return uses.forward; },
      [training](const Module::Uses& uses) {
        return training ? uses.forward_gradients : ParameterUse{0, false, false};
      },
      [&](std::size_t i) {
        const bool last = i + 1 == modules_.size();
        modules_[i]->Forward(micro_batch, Kept(i, slot), last ? out : modules_[i + 1]->Input(Kept(i + 1, slot)));
      });
}

// A gradient walks back through the modules, each reading it from one spare buffer and writing to the other.
template <typename Part>
Tensor Stage::RunBackward(const GradientBuffers& buffers, bool whole, bool last, Part part) {
  Tensor grad = buffers.grad_out;
  ForEach(
      {.reverse = true, .last = last},
      [whole](const Module::Uses& uses) {
        return whole ? Union(uses.backward_input, uses.backward_weight) : uses.backward_input;
      },
      [whole](const Module::Uses& uses) {
        return whole ? Union(uses.input_gradients, uses.weight_gradients) : uses.input_gradients;
      },
      [&](std::size_t i) {
        grad = part(i, grad, grad.data == buffers.spare_a.data ? buffers.spare_b : buffers.spare_a);
      });
  return grad;
}

Tensor Stage::BackwardInput(const MicroBatch& micro_batch, int slot, const Tensor& grad_out, const Tensor& spare_a,
                            const Tensor& spare_b) {
  return RunBackward({grad_out, spare_a, spare_b}, false, micro_batch.last,
                     [&](std::size_t i, const Tensor& grad, const Tensor& to) {
                       return modules_[i]->BackwardInput(micro_batch, Kept(i, slot), grad, to);
                     });
}

Tensor Stage::Backward(const MicroBatch& micro_batch, int slot, const Tensor& grad_out, const Tensor& spare_a,
                       const Tensor& spare_b) {
  return RunBackward({grad_out, spare_a, spare_b}, true, micro_batch.last,
                     [&](std::size_t i, const Tensor& grad, const Tensor& to) {
                       return modules_[i]->Backward(micro_batch, Kept(i, slot), grad, to);
                     });
}

void Stage::BackwardWeight(const MicroBatch& micro_batch, int slot) {
  ForEach(
      {.reverse = true, .last = micro_batch.last}, [](const Module::Uses& uses) { return uses.backward_weight; },
      [](const Module::Uses& uses) { return uses.weight_gradients; },
      [&](std::size_t i) { modules_[i]->BackwardWeight(micro_batch, Kept(i, slot)); });
}

}  // namespace trireme
