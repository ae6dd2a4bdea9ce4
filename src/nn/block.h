// A transformer block of any family: two branches, each norm -> tensor region -> residual.
#pragma once

#include "model/parameter_places.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace trireme {

class Block : public Module {
 public:
  // layer counts from 0; `sizes` say what this block recomputes.
  Block(const ModuleContext& context, const LocalSizes& sizes, std::int64_t layer);

  std::int64_t kept_bytes() const override { return plan_.kept_bytes; }
  Tensor Input(char* kept) const override { return At(plan_.input, kept, nullptr); }
  void Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) override;
  Tensor BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out,
                       const Tensor& grad_in) override;
  void BackwardWeight(const MicroBatch& micro_batch, char* kept) override;
  // Feed-forward half and attention half each finish their weights before the other half needs the scratch.
  Tensor Backward(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor& grad_in) override;
  Uses uses() const override;

 private:
  // One place as a tensor.
  Tensor T(const Place& place, char* kept) const { return At(place, kept, context_.scratch); }
  Tensor Parameter(int row) { return row < 0 ? Tensor{} : context_.parameters.Get(row); }
  Tensor Gradient(int row) { return row < 0 ? Tensor{} : context_.gradients.Gradient(row); }
  Float8Copy Copy8(const Float8Place& place, char* kept) const {
    return {T(place.rows, kept), T(place.columns, kept), T(place.scale, kept), place.late};
  }
  bool PartsApart() const { return sizes_.split_backward && !sizes_.recompute_block; }

  // Forward up to the feed-forward's activation; all that backward needs.
  void RunAttention(const MicroBatch& micro_batch, char* kept);
  void RunFeedForward(char* kept);
  AttentionArgs Attention(const MicroBatch& micro_batch, char* kept) const;
  // The gradient that enters a branch: undropped, of all tokens of the region.
  Tensor BranchGradient(const MicroBatch& micro_batch, int site, const Tensor& grad, const Place& place, char* kept);

  void FeedForwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out);
  void FeedForwardWeight(const MicroBatch& micro_batch, char* kept, const Tensor& grad_branch);
  void AttentionInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_in);
  void AttentionWeight(const MicroBatch& micro_batch, char* kept, const Tensor& grad_branch);
  // A normed tensor of all tokens, made again where it was not kept; not given where its fp8 copy is enough.
  Linear::Operand NormedInside(char* kept, bool first);
  void AddBiasGradient(const Tensor& rows, int bias_row);
  // Whether the backward of a norm also makes its output again, which the weight part then reads at once. `place`: of
  // its fp8 copy, which may be there already.
  bool RemakesNorm(const Float8Place& place) const {
    return sizes_.recompute_norms && !PartsApart() && (!place.scale.present() || place.late);
  }
  void AddNormGradients(char* kept);

  ModuleContext context_;
  LocalSizes sizes_;
  BlockPlan plan_;
  BlockParameters rows_;
  std::int64_t module_;
  NormKind norm_kind_;
  Linear linear_;
};

}  // namespace trireme
