#include "nn/block.h"

#include <cmath>

namespace trireme {

Block::Block(const ModuleContext& context, const LocalSizes& sizes, std::int64_t layer)
    : context_(context),
      sizes_(sizes),
      plan_(sizes),
      rows_(PlacesOfBlock(context.table, layer)),
      module_(layer + 1),
      norm_kind_(context.model.norm == NormChoice::kRmsNorm ? NormKind::kRms : NormKind::kLayer),
      linear_(context.ops, Copy8(plan_.weight_float8, nullptr)) {}

Module::Uses Block::uses() const {
  const ParameterUse own{.module = module_, .own = true, .tied = false};
  const ParameterUse none{.module = module_, .own = false, .tied = false};
  const bool weight_part_reads = PartsApart() && sizes_.recompute_norms;
  return {.forward = own,
          .backward_input = own,
          .backward_weight = weight_part_reads ? own : none,
          .forward_gradients = none,
          .input_gradients = PartsApart() ? none : own,
          .weight_gradients = PartsApart() ? own : none};
}

AttentionArgs Block::Attention(const MicroBatch& micro_batch, char* kept) const {
  return {.batch = sizes_.batch,
          .sequence = sizes_.sequence,
          .heads = sizes_.heads,
          .kv_heads = sizes_.kv_heads,
          .head_size = sizes_.head_size,
          .scale = 1.0F / std::sqrt(static_cast<float>(sizes_.head_size)),
          .slopes = context_.slopes,
          .document_starts = micro_batch.document_starts,
          .qkv = T(plan_.qkv, kept),
          .out = T(plan_.attention_out, kept),
          .statistics = T(plan_.attention_statistics, kept)};
}

void Block::RunAttention(const MicroBatch& micro_batch, char* kept) {
  Ops& ops = context_.ops;
  const Tensor input = T(plan_.input, kept);
  const auto epsilon = static_cast<float>(context_.model.norm_epsilon);
  ops.ResidualNormForward({.x = input,
                           .kind = norm_kind_,
                           .epsilon = epsilon,
                           .gamma = Parameter(rows_.attention_norm_gain),
                           .beta = Parameter(rows_.attention_norm_bias),
                           .normed = T(plan_.normed1, kept),
                           .statistics = T(plan_.norm1_statistics, kept)});
  const Tensor inside = context_.region.Enter(T(plan_.normed1, kept), T(plan_.gathered, kept));
  linear_.Forward({.a = inside, .c = T(plan_.qkv, kept), .bias = Parameter(rows_.qkv_bias)},
                  Parameter(rows_.qkv_weight), Copy8(plan_.normed1_float8, kept));
  if (context_.model.position == PositionChoice::kRotary) {
    ops.Rotary({.qkv = T(plan_.qkv, kept),
                .sequence = sizes_.sequence,
                .heads = sizes_.heads,
                .kv_heads = sizes_.kv_heads,
                .head_size = sizes_.head_size,
                .theta = static_cast<float>(context_.model.rope_theta)});
  }
  ops.AttentionForward(Attention(micro_batch, kept));
  linear_.Forward({.a = T(plan_.attention_out, kept), .c = T(plan_.branch, kept)}, Parameter(rows_.out_weight),
                  Copy8(plan_.attention_float8, kept));
  const Tensor branch = context_.region.Leave(T(plan_.branch, kept), T(plan_.branch_reduced, kept));
  ops.ResidualNormForward({.x = input,
                           .branch = branch,
                           .bias = Parameter(rows_.out_bias),
                           .dropout = DropoutOf(context_.model, micro_batch, module_, 0, context_.region.first_token()),
                           .sum = T(plan_.middle, kept),
                           .kind = norm_kind_,
                           .epsilon = epsilon,
                           .gamma = Parameter(rows_.mlp_norm_gain),
                           .beta = Parameter(rows_.mlp_norm_bias),
                           .normed = T(plan_.normed2, kept),
                           .statistics = T(plan_.norm2_statistics, kept)});
}

void Block::RunFeedForward(char* kept) {
  const Tensor inside = context_.region.Enter(T(plan_.normed2, kept), T(plan_.gathered, kept));
  const Tensor before = T(plan_.ffn_in, kept);
  const Tensor after = T(plan_.ffn_active, kept);
  MatmulArgs product{.a = inside, .c = before, .bias = Parameter(rows_.in_bias)};
  if (!sizes_.gated) {
    product.c = after;
    product.epilogue = Epilogue::kGelu;
    product.auxiliary = before;
  }
  linear_.Forward(product, Parameter(rows_.in_weight), Copy8(plan_.normed2_float8, kept));
  if (sizes_.gated) {
    context_.ops.ActivationForward(ActivationKind::kSwiGlu, before, after);
  }
}

void Block::Forward(const MicroBatch& micro_batch, char* kept, const Tensor& out) {
  RunAttention(micro_batch, kept);
  RunFeedForward(kept);
  linear_.Forward({.a = T(plan_.ffn_active, kept), .c = T(plan_.branch, kept)}, Parameter(rows_.mlp_out_weight),
                  Copy8(plan_.active_float8, kept));
  const Tensor branch = context_.region.Leave(T(plan_.branch, kept), T(plan_.branch_reduced, kept));
  context_.ops.ResidualNormForward(
      {.x = T(plan_.middle, kept),
       .branch = branch,
       .bias = Parameter(rows_.mlp_out_bias),
       .dropout = DropoutOf(context_.model, micro_batch, module_, 1, context_.region.first_token()),
       .sum = out});
}

}  // namespace trireme
