// A piece of a model with explicit forward and backward for one micro batch. Modules hold no activations: what forward
// leaves for backward lies in the kept memory of the micro batch, at the places of the module's plan.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "device/device.h"
#include "lowering/memory_plan.h"
#include "lowering/module_plan.h"
#include "model/model_config.h"
#include "model/parameter_table.h"
#include "nn/parameters.h"
#include "nn/tensor_region.h"

namespace trireme {

// Logits of some tokens of a micro batch, as the head of one tensor rank has them: [rows, columns and padding].
struct LogitChunk {
  Tensor logits;
  std::int64_t first_token = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;  // without padding
};
using LogitSink = std::function<void(const LogitChunk&)>;

// A micro batch as every module sees it. Tensors live on the device until the step ends.
struct MicroBatch {
  Tensor tokens;                      // int32 [N]
  Tensor targets;                     // int32 [N]
  Tensor weights;                     // fp32 [N]
  Tensor document_starts;             // int32 [B, T], of the tokens whose queries attention has here; may be missing
  Tensor places;                      // int32 [N]: each token's number in the whole micro batch; missing: in order
  Tensor positions;                   // int32 [N], where they begin anew with every document; missing: as `places` say
  Tensor loss_sums;                   // fp32 [2], written by the head: weighted loss, weight
  std::int64_t first_sample = 0;      // global number of its first sequence: dropout is drawn by global position
  std::uint64_t dropout_key = 0;      // of (seed, step)
  float loss_scale = 1;               // gradients are those of loss_scale * (weighted sum of losses)
  bool training = true;               // false: no gradients, no dropout
  bool first = false;                 // no earlier micro batch of the step did this part of this stage's work
  bool last = false;                  // no later micro batch of the step does this part of this stage's work
  const LogitSink* logits = nullptr;  // told of every chunk before its loss, unless `training`; may be missing

  // What rotary and learned positions are looked up by.
  const Tensor& PositionsOrPlaces() const { return positions.given() ? positions : places; }
};

// What modules of a rank share. Everything referred to outlives the modules.
struct ModuleContext {
  Ops& ops;
  TensorRegion& region;
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
  virtual ~Module() = default;

  virtual std::int64_t kept_bytes() const = 0;
  // Where the input of forward must lie, in this micro batch's kept memory. Not given for the embedding.
  virtual Tensor Input(char* kept) const = 0;

  // Reads Input(kept), writes `out` [n, C] (the head writes micro_batch.loss_sums instead).
  virtual void Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) = 0;
  // Returns the gradient of the input, written to `grad_in` or lying in kept memory. `grad_out` may be overwritten.
  virtual Tensor BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out,
                               const Tensor& grad_in) = 0;
  // The rest of backward. Requires BackwardInput before; kept memory is free afterwards.
  virtual void BackwardWeight(const MicroBatch& micro_batch, char* kept) = 0;
  // Both parts at once.
  virtual Tensor Backward(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor& grad_in) {
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
  virtual Uses uses() const = 0;
};

// The tensor at a place, given the bases of the two areas.
inline Tensor TensorAt(const Place& place, char* kept, char* scratch) {
  if (!place.present()) {
    return {};
  }
  return {(place.area == Area::kKept ? kept : scratch) + place.offset, place.dtype, place.shape};
}

// What token embeddings are multiplied by where model.scale_embedding is set.
inline float EmbeddingScale(const ModelConfig& model) { return std::sqrt(static_cast<float>(model.hidden)); }

// The dropout of a site within a module, for `rows` tokens from `first_token` of those that this rank has.
Dropout DropoutOf(const ModelConfig& model, const MicroBatch& micro_batch, std::int64_t module, int site,
                  std::int64_t first_token, std::int64_t rows);
// Of the weights of a block's attention, for a rank whose heads begin at `first_head`.
Dropout AttentionDropoutOf(const ModelConfig& model, const MicroBatch& micro_batch, std::int64_t module,
                           std::int64_t first_head);

}  // namespace trireme
