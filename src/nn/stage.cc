#include "nn/stage.h"

#include <algorithm>

#include "lowering/module_plan.h"

namespace trireme {
namespace {

ParameterUse Union(const ParameterUse& a, const ParameterUse& b) {
  return {.module = a.module, .own = a.own || b.own, .tied = a.tied || b.tied};
}

}  // namespace

Stage::Stage(const ModuleContext& context, const StageDescription& description, int chunk, const KeptMemory& memory)
    : context_(context), memory_(memory) {
  const ModuleRange& range = description.Range(chunk);
  first_module_ = range.first;
  const std::int64_t first_block = std::max<std::int64_t>(range.first, 1);
  const LocalSizes& sizes = description.sizes;
  char* weights = memory_.weights;
  for (std::int64_t module = range.first; module < range.last; ++module) {
    if (module == 0) {
      modules_.push_back(std::make_unique<Module>(context_, sizes, PlanEmbedding(description.model, sizes), module));
    } else if (module == description.model.modules() - 1) {
      const std::int64_t tokens = HeadChunkWithin(sizes, description.head_chunk, ScratchBytes(description));
      modules_.push_back(std::make_unique<Module>(context_, sizes, PlanHead(description.model, sizes, tokens), module));
    } else {
      const LocalSizes block =
          BlockSizes(sizes, description.layout, module - first_block).ForLayer(description.model, module - 1);
      modules_.push_back(
          std::make_unique<Module>(context_, block, PlanBlock(description.model, block), module, weights));
      weights += modules_.back()->weight_bytes();
    }
    const bool block = module > 0 && module < description.model.modules() - 1;
    away_.push_back(block && memory_.buffers != nullptr);
    std::int64_t& next = away_.back() ? host_bytes_ : kept_bytes_;
    offsets_.push_back(next);
    next += modules_.back()->kept_bytes();
    uses_.push_back(modules_.back()->uses());
  }
  if (away_.front()) {  // the chunk's input stays here until its forward
    kept_bytes_ += RoundUp(Input(0).bytes(), kPlanAlignment);
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      offsets_[i] += away_[i] ? 0 : RoundUp(Input(0).bytes(), kPlanAlignment);
    }
  }
}

std::vector<std::pair<std::int64_t, Tensor>> Stage::ExpertLoads() const {
  std::vector<std::pair<std::int64_t, Tensor>> loads;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    if (const Tensor load = modules_[i]->ExpertLoad(); load.given()) {
      loads.emplace_back(first_module_ + static_cast<std::int64_t>(i) - 1, load);
    }
  }
  return loads;
}

char* Stage::Kept(std::size_t module, int slot) const { return memory_.slots + slot * kept_bytes_ + offsets_[module]; }

Tensor Stage::Input(int slot) const {
  Tensor input = modules_.front()->Input(Kept(0, slot));
  if (away_.front()) {
    input.data = memory_.slots + slot * kept_bytes_;
  }
  return input;
}

ActivationBuffers::Home Stage::HomeOf(std::size_t module, int slot) const {
  return {.host = memory_.host + slot * host_bytes_ + offsets_[module], .bytes = modules_[module]->kept_bytes()};
}

char* Stage::KeptForForward(std::size_t module, int slot) {
  if (!away_[module]) {
    return Kept(module, slot);
  }
  char* const kept = memory_.buffers->Take(HomeOf(module, slot));
  if (module == 0) {
    context_.ops.Copy(modules_[0]->Input(kept), Input(slot));
  }
  return kept;
}

char* Stage::KeptForBackward(std::size_t module, int slot, bool weight_part) {
  // What is recomputed whole has no weight part.
  const auto comes = [&](std::size_t i) {
    if (away_[i] && (!weight_part || uses_[i].weight_gradients.any())) {
      memory_.buffers->Prefetch(HomeOf(i, slot));
      return true;
    }
    return false;
  };
  const bool away = comes(module);
  if (module > 0) {
    comes(module - 1);
  }
  return away ? memory_.buffers->Get(HomeOf(module, slot)) : Kept(module, slot);
}

void Stage::Leave(std::size_t module, int slot, bool needed) {
  if (away_[module]) {
    needed ? memory_.buffers->Save(HomeOf(module, slot)) : memory_.buffers->Drop(HomeOf(module, slot));
  }
}

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
  char* kept = KeptForForward(0, slot);
  ForEach(
      {.reverse = false, .last = micro_batch.last}, [](const Module::Uses& uses) { return uses.forward; },
      [training](const Module::Uses& uses) {
        return training ? uses.forward_gradients : ParameterUse{0, false, false};
      },
      [&](std::size_t i) {
        const bool last = i + 1 == modules_.size();
        char* const next = last ? nullptr : KeptForForward(i + 1, slot);
        modules_[i]->Forward(micro_batch, kept, last ? out : modules_[i + 1]->Input(next));
        Leave(i, slot, training);
        kept = next;
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
                       char* const kept = KeptForBackward(i, slot);
                       const Tensor result = modules_[i]->BackwardInput(micro_batch, kept, grad, to);
                       Leave(i, slot, uses_[i].weight_gradients.any());
                       return result;
                     });
}

Tensor Stage::Backward(const MicroBatch& micro_batch, int slot, const Tensor& grad_out, const Tensor& spare_a,
                       const Tensor& spare_b) {
  return RunBackward({grad_out, spare_a, spare_b}, true, micro_batch.last,
                     [&](std::size_t i, const Tensor& grad, const Tensor& to) {
                       char* const kept = KeptForBackward(i, slot);
                       const Tensor result = modules_[i]->Backward(micro_batch, kept, grad, to);
                       Leave(i, slot, false);
                       return result;
                     });
}

void Stage::BackwardWeight(const MicroBatch& micro_batch, int slot) {
  ForEach(
      {.reverse = true, .last = micro_batch.last}, [](const Module::Uses& uses) { return uses.backward_weight; },
      [](const Module::Uses& uses) { return uses.weight_gradients; },
      [&](std::size_t i) {
        if (away_[i] && !uses_[i].weight_gradients.any()) {
          return;
        }
        modules_[i]->BackwardWeight(micro_batch, KeptForBackward(i, slot, true));
        Leave(i, slot, false);
      });
}

}  // namespace trireme
