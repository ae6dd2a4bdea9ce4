// A piece of a model (embedding, block or head) with explicit forward and backward for one micro batch: executes its
// program. Modules hold no activations: what forward leaves for backward lies in the kept memory of the micro batch, at
// the places of the program.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "lowering/module_program.h"
#include "model/parameter_table.h"
#include "nn/micro_batch.h"
#include "nn/parameters.h"
#include "nn/program_runner.h"

namespace trireme {

// What modules of a rank share. Everything referred to outlives the modules.
struct ModuleContext {
  Ops& ops;
  Communicator& tensor_group;
  ParameterSource& parameters;
  GradientSink& gradients;
  const ParameterTable& table;
  const ModelConfig& model;
  char* scratch = nullptr;  // of the planned size, free to use during one call
  Tensor slopes;            // fp32 [heads of this tensor rank]; missing without ALiBi
  float z_loss = 0;
  Communicator* sequence_group = nullptr;  // the context axis; needed where its degree is above 1
  Communicator* heads_group = nullptr;     // of it, the ranks that Ulysses divides heads among
  Communicator* ring_group = nullptr;      // of it, the ranks whose keys pass by
  Device* device = nullptr;                // whose streams the context axis uses; without it nothing overlaps
};

class Module {
 public:
  // `number`: of the module, 0 for the embedding; `sizes` say what a block recomputes. weights: memory of
  // weight_bytes() for fp8 copies of weights, with any contents, which outlives the module; the forward of a step's
  // first micro batch fills it.
  Module(const ModuleContext& context, const LocalSizes& sizes, ModuleProgram program, std::int64_t number,
         char* weights = nullptr);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  std::int64_t kept_bytes() const { return program_.kept_bytes; }
  std::int64_t weight_bytes() const { return program_.weight_bytes; }
  // Rows of each expert in this step so far; missing where there are none.
  Tensor ExpertLoad() const {
    const BufferId load = program_.expert_load;
    return load == kNoId || weights_ == nullptr
               ? Tensor{}
               : TensorAt(program_.buffers[static_cast<std::size_t>(load)], nullptr, weights_);
  }
  // Where the input of forward must lie, in this micro batch's kept memory. Not given for the embedding.
  Tensor Input(char* kept) const { return TensorAt(program_.buffers[kModuleInput], kept, nullptr); }

  // Reads Input(kept), writes `out` [n, C] (the head writes micro_batch.loss_sums instead).
  void Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out);
  // Returns the gradient of the input, written to `grad_in` or lying in kept memory; not given for the embedding.
  // `grad_out` may be overwritten. A block whose backward is not in parts does both here.
  Tensor BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor& grad_in);
  // The rest of backward. Requires BackwardInput before; kept memory is free afterwards.
  void BackwardWeight(const MicroBatch& micro_batch, char* kept);
  // Both parts at once.
  Tensor Backward(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor& grad_in) {
    const Tensor grad = BackwardInput(micro_batch, kept, grad_out, grad_in);
    BackwardWeight(micro_batch, kept);
    return grad;
  }

  // What each part reads and which gradients it makes; nothing where any() is false.
  struct Uses {
    ParameterUse forward;
    ParameterUse backward_input;
    ParameterUse backward_weight;
    ParameterUse forward_gradients;
    ParameterUse input_gradients;
    ParameterUse weight_gradients;
  };
  Uses uses() const;

 private:
  ProgramCall Call(const MicroBatch& micro_batch, char* kept, std::span<const Tensor> given = {}) const {
    return {.micro_batch = micro_batch, .kept = kept, .scratch = scratch_, .weights = weights_, .given = given};
  }

  LocalSizes sizes_;
  ModuleProgram program_;
  std::vector<int> rows_;  // of the table: its parameters
  char* scratch_;
  char* weights_;
  ProgramRunner::Context run_context_;
  ProgramRunner runner_;
};

}  // namespace trireme
