// The modules of one virtual stage, run in order for a micro batch. Brackets each module with the gathering of its
// parameters (one module ahead) and the finishing of its gradients.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cost/step_cost.h"
#include "nn/activation_buffers.h"
#include "nn/module.h"

namespace trireme {

// Memory of what a chunk keeps, a slot for each micro batch in flight: as many bytes as PlacesOfKept says. Outlives the
// stage.
struct KeptMemory {
  char* slots = nullptr;
  char* weights = nullptr;  // WeightCopyBytes, not of a slot
  // With layout.offload_activations.
  char* host = nullptr;
  ActivationBuffers* buffers = nullptr;
};

class Stage {
 public:
  // What `context` refers to outlives the stage.
  Stage(const ModuleContext& context, const StageDescription& description, int chunk, const KeptMemory& memory);

  // Called after every module's part, on the thread that runs it; empty: no call.
  void set_on_module(std::function<void()> on_module) { on_module_ = std::move(on_module); }

  // Layers of this chunk that have experts, by number from 0, with the rows of each expert in this step.
  std::vector<std::pair<std::int64_t, Tensor>> ExpertLoads() const;

  // Where the previous stage's output goes before Forward; not given for the first virtual stage.
  Tensor Input(int slot) const;
  // `out` [n, C]: not used by the last virtual stage.
  void Forward(const MicroBatch& micro_batch, int slot, const Tensor& out);
  // grad_out: not used by the last virtual stage. Returns the gradient of the stage's input, in one of the two spare
  // buffers [n, C] or in kept memory; not given for the first virtual stage. grad_out may be `spare_b`.
  Tensor BackwardInput(const MicroBatch& micro_batch, int slot, const Tensor& grad_out, const Tensor& spare_a,
                       const Tensor& spare_b);
  void BackwardWeight(const MicroBatch& micro_batch, int slot);
  // Both parts, module by module.
  Tensor Backward(const MicroBatch& micro_batch, int slot, const Tensor& grad_out, const Tensor& spare_a,
                  const Tensor& spare_b);

 private:
  // Kept memory of a module where it stays on the device.
  char* Kept(std::size_t module, int slot) const;
  // Kept memory of a block where it lies in the host's.
  ActivationBuffers::Home HomeOf(std::size_t module, int slot) const;
  // Kept memory for a module to compute forward in, and for one that computes backward next: that of the module before
  // it starts to come.
  char* KeptForForward(std::size_t module, int slot);
  char* KeptForBackward(std::size_t module, int slot, bool weight_part = false);
  // The module is done with it; `needed`: for a later part of backward.
  void Leave(std::size_t module, int slot, bool needed);
  struct Walk {
    bool reverse = false;
    bool last = false;  // as MicroBatch::last
  };
  // Calls run(module index) for each module, with its parameters present and its gradients open.
  template <typename UseOf, typename GradientsOf, typename Run>
  void ForEach(const Walk& walk, UseOf use_of, GradientsOf gradients_of, Run run);
  struct GradientBuffers {
    Tensor grad_out;
    Tensor spare_a;
    Tensor spare_b;
  };
  template <typename Part>
  Tensor RunBackward(const GradientBuffers& buffers, bool whole, bool last, Part part);

  ModuleContext context_;
  std::int64_t first_module_ = 0;
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<Module::Uses> uses_;
  std::vector<bool> away_;             // whether its kept memory lies in the host's
  std::vector<std::int64_t> offsets_;  // of kept memory in a slot, there or here
  std::int64_t kept_bytes_ = 0;        // of a slot
  std::int64_t host_bytes_ = 0;
  KeptMemory memory_;
  std::function<void()> on_module_;
};

}  // namespace trireme
