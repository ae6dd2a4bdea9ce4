// Final norm, output projection over a vocabulary cut over the tensor group, and cross-entropy. Logits exist for one
// chunk of tokens at a time: in training their gradients are used up in the same breath, so the head's forward leaves
// the gradient of its input in the input's place, and its backward only hands that on.
#pragma once

#include "model/parameter_places.h"
#include "nn/module.h"

namespace trireme {

class Head : public Module {
 public:
  Head(const ModuleContext& context, const LocalSizes& sizes, std::int64_t chunk);

  std::int64_t kept_bytes() const override { return plan_.kept_bytes; }
  Tensor Input(char* kept) const override { return TensorAt(plan_.input, kept, nullptr); }
  // `out` is not used: the loss goes to micro_batch.loss_sums.
  void Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) override;
  Tensor BackwardInput(const MicroBatch&, char* kept, const Tensor&, const Tensor&) override { return Input(kept); }
  void BackwardWeight(const MicroBatch&, char*) override {}
  Uses uses() const override;

 private:
  // Losses of the tokens [first, first + rows), and in training their part of the gradients.
  void RunChunk(const MicroBatch& micro_batch, const Tensor& inside, std::int64_t first, std::int64_t rows);
  // Where the norm's backward adds the gradient of a parameter of the norm; a frozen one's at `place` of scratch.
  Tensor NormGradient(int row, std::int64_t place) const;
  Tensor Scratch(const Place& place) const { return TensorAt(place, nullptr, context_.scratch); }
  Tensor Parameter(int row) { return row < 0 ? Tensor{} : context_.parameters.Get(row); }

  ModuleContext context_;
  LocalSizes sizes_;
  HeadPlan plan_;
  HeadParameters rows_;
};

}  // namespace trireme
