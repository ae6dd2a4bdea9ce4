#include "nn/embedding.h"

namespace trireme {

Embedding::Embedding(const ModuleContext& context, const LocalSizes& sizes)
    : context_(context),
      sizes_(sizes),
      plan_(sizes, context.model.embedding_norm),
      rows_(PlacesOfEmbedding(context.table)) {}

Module::Uses Embedding::uses() const {
  const bool tied = context_.model.tie_embeddings;
  const bool own = !tied || rows_.position >= 0 || rows_.norm_gain >= 0;
  const ParameterUse all{.module = 0, .own = own, .tied = tied};
  const ParameterUse none{.module = 0, .own = false, .tied = false};
  ParameterUse backward = none;
  backward.own = rows_.norm_gain >= 0 && !sizes_.frozen;  // the norm's gain
  return {.forward = all,
          .backward_input = backward,
          .backward_weight = none,
          .forward_gradients = none,
          .input_gradients = sizes_.frozen ? none : all,
          .weight_gradients = none};
}

void Embedding::Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) {
  Ops& ops = context_.ops;
  const Tensor sum = plan_.sum.present() ? TensorAt(plan_.sum, kept, nullptr) : out;
  const Tensor found = plan_.lookup.present() ? TensorAt(plan_.lookup, kept, context_.scratch) : sum;
  ops.EmbeddingForward(
      {.tokens = micro_batch.tokens, .table = Parameter(rows_.token), .first_row = first_row(), .out = found});
  context_.region.Leave(found, sum);
  if (context_.model.scale_embedding) {
    ops.Scale(sum, EmbeddingScale(context_.model));
  }
  if (rows_.position >= 0) {
    ops.AddPositions({.x = sum,
                      .table = Positions(Parameter(rows_.position)),
                      .first_token = context_.region.first_token(),
                      .tokens = OwnPositions(micro_batch)});
  }
  if (rows_.norm_gain >= 0) {
    ops.ResidualNormForward({.x = sum,
                             .kind = context_.model.norm,
                             .epsilon = static_cast<float>(context_.model.norm_epsilon),
                             .gain_offset = static_cast<float>(context_.model.gain_offset),
                             .gamma = Parameter(rows_.norm_gain),
                             .beta = Parameter(rows_.norm_bias),
                             .normed = out,
                             .statistics = TensorAt(plan_.norm_statistics, kept, nullptr)});
  }
  const Dropout dropout = DropoutOf(context_.model, micro_batch, 0, 0, context_.region.first_token(), sizes_.outside);
  if (dropout.probability > 0) {
    ops.ApplyDropout(out, out, dropout);
  }
}

Tensor Embedding::BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor&) {
  if (sizes_.frozen) {
    return {};
  }
  Ops& ops = context_.ops;
  const Dropout dropout = DropoutOf(context_.model, micro_batch, 0, 0, context_.region.first_token(), sizes_.outside);
  if (dropout.probability > 0) {
    ops.ApplyDropout(grad_out, grad_out, dropout);
  }
  if (rows_.norm_gain >= 0) {
    ops.NormBackward({.grad_normed = grad_out,
                      .x = TensorAt(plan_.sum, kept, nullptr),
                      .statistics = TensorAt(plan_.norm_statistics, kept, nullptr),
                      .kind = context_.model.norm,
                      .gain_offset = static_cast<float>(context_.model.gain_offset),
                      .gamma = Parameter(rows_.norm_gain),
                      .grad_x = grad_out,
                      .grad_gamma = context_.gradients.Gradient(rows_.norm_gain),
                      .grad_beta = rows_.norm_bias < 0 ? Tensor{} : context_.gradients.Gradient(rows_.norm_bias)});
  }
  if (rows_.position >= 0) {
    ops.PositionsBackward({.x = grad_out,
                           .grad_table = Positions(context_.gradients.Gradient(rows_.position)),
                           .first_token = context_.region.first_token(),
                           .tokens = OwnPositions(micro_batch)});
  }
  if (context_.model.scale_embedding) {
    ops.Scale(grad_out, EmbeddingScale(context_.model));
  }
  const Tensor inside = context_.region.Enter(grad_out, TensorAt(plan_.grad_gathered, kept, context_.scratch));
  ops.EmbeddingBackward({.tokens = micro_batch.tokens,
                         .first_row = first_row(),
                         .grad_out = inside,
                         .grad_table = context_.gradients.Gradient(rows_.token)});
  return {};
}

}  // namespace trireme
