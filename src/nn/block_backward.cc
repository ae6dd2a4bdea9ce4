#include "nn/block.h"

namespace trireme {

Tensor Block::BranchGradient(const MicroBatch& micro_batch, int site, const Tensor& grad, const Place& place,
                             char* kept) {
  if (!place.present()) {
    return grad;
  }
  const Tensor inside = T(place, kept);
  const Tensor own = context_.region.OwnRows(inside);
  context_.ops.ApplyDropout(own, grad,
                            DropoutOf(context_.model, micro_batch, module_, site, context_.region.first_token()));
  return context_.region.Enter(own, inside);
}

void Block::FeedForwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out) {
  Ops& ops = context_.ops;
  const Tensor grad_branch = BranchGradient(micro_batch, 1, grad_out, plan_.grad_branch2, kept);
  const Tensor grad_before = T(plan_.grad_ffn_in, kept);
  MatmulArgs product{.a = grad_branch, .c = grad_before};
  if (sizes_.gated) {
    product.c = T(plan_.grad_active, kept);
  } else {
    product.epilogue = Epilogue::kGeluGradient;
    product.auxiliary = T(plan_.ffn_in, kept);
  }
  linear_.Backward(product, Parameter(rows_.mlp_out_weight), Copy8(plan_.grad_branch2_float8, kept));
  if (sizes_.gated) {
    ops.ActivationBackward(ActivationKind::kSwiGlu, product.c, T(plan_.ffn_in, kept), grad_before);
  }
  const Tensor grad_inside = T(plan_.grad_gathered, kept);
  linear_.Backward({.a = grad_before, .c = grad_inside}, Parameter(rows_.in_weight),
                   Copy8(plan_.grad_ffn_in_float8, kept));
  const Tensor grad_normed = context_.region.Leave(grad_inside, T(plan_.grad_normed, kept));
  const Tensor norm_gradients = T(plan_.norm_gradients, kept);
  const bool remakes = RemakesNorm(plan_.normed2_float8);
  ops.NormBackward(
      {.grad_normed = grad_normed,
       .x = T(plan_.middle, kept),
       .statistics = T(plan_.norm2_statistics, kept),
       .kind = norm_kind_,
       .gamma = Parameter(rows_.mlp_norm_gain),
       .grad_residual = grad_out,
       .grad_x = T(plan_.grad_middle, kept),
       .grad_gamma = norm_gradients.Rows(2, 1).Reshaped({sizes_.hidden}),
       .grad_beta = rows_.mlp_norm_bias < 0 ? Tensor{} : norm_gradients.Rows(3, 1).Reshaped({sizes_.hidden}),
       .beta = remakes ? Parameter(rows_.mlp_norm_bias) : Tensor{},
       .normed = remakes ? T(plan_.renormed, kept) : Tensor{}});
}

void Block::AttentionInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_in) {
  Ops& ops = context_.ops;
  const Tensor grad_middle = T(plan_.grad_middle, kept);
  AttentionArgs attention = Attention(micro_batch, kept);
  if (sizes_.recompute_attention) {
    ops.set_recomputing(true);
    ops.AttentionForward(attention);
    ops.set_recomputing(false);
  }
  const Tensor grad_branch = BranchGradient(micro_batch, 0, grad_middle, plan_.grad_branch1, kept);
  attention.grad_out = T(plan_.grad_attention_out, kept);
  attention.grad_qkv = T(plan_.grad_qkv, kept);
  linear_.Backward({.a = grad_branch, .c = attention.grad_out}, Parameter(rows_.out_weight),
                   Copy8(plan_.grad_branch1_float8, kept));
  ops.AttentionBackward(attention);
  if (context_.model.position == PositionChoice::kRotary) {
    ops.Rotary({.qkv = attention.grad_qkv,
                .sequence = sizes_.sequence,
                .heads = sizes_.heads,
                .kv_heads = sizes_.kv_heads,
                .head_size = sizes_.head_size,
                .theta = static_cast<float>(context_.model.rope_theta),
                .inverse = true});
  }
  const Tensor grad_inside = T(plan_.grad_gathered, kept);
  linear_.Backward({.a = attention.grad_qkv, .c = grad_inside}, Parameter(rows_.qkv_weight),
                   Copy8(plan_.grad_qkv_float8, kept));
  const Tensor grad_normed = context_.region.Leave(grad_inside, T(plan_.grad_normed, kept));
  const Tensor norm_gradients = T(plan_.norm_gradients, kept);
  const bool remakes = RemakesNorm(plan_.normed1_float8);
  ops.NormBackward(
      {.grad_normed = grad_normed,
       .x = T(plan_.input, kept),
       .statistics = T(plan_.norm1_statistics, kept),
       .kind = norm_kind_,
       .gamma = Parameter(rows_.attention_norm_gain),
       .grad_residual = grad_middle,
       .grad_x = grad_in,
       .grad_gamma = norm_gradients.Rows(0, 1).Reshaped({sizes_.hidden}),
       .grad_beta = rows_.attention_norm_bias < 0 ? Tensor{} : norm_gradients.Rows(1, 1).Reshaped({sizes_.hidden}),
       .beta = remakes ? Parameter(rows_.attention_norm_bias) : Tensor{},
       .normed = remakes ? T(plan_.renormed, kept) : Tensor{}});
}

void Block::AddBiasGradient(const Tensor& rows, int bias_row) {
  if (bias_row >= 0) {
    context_.ops.BiasGradient(rows, Gradient(bias_row));
  }
}

Linear::Operand Block::NormedInside(char* kept, bool first) {
  const Float8Place& place = first ? plan_.normed1_float8 : plan_.normed2_float8;
  const Float8Copy copy = Copy8(place, kept);
  if (copy.given() && !copy.late) {
    return {{}, copy};
  }
  Tensor normed = T(first ? plan_.normed1 : plan_.normed2, kept);
  if (sizes_.recompute_norms) {
    normed = T(plan_.renormed, kept);
  }
  if (sizes_.recompute_norms && !RemakesNorm(place)) {
    context_.ops.ResidualNormForward({.x = T(first ? plan_.input : plan_.middle, kept),
                                      .kind = norm_kind_,
                                      .epsilon = static_cast<float>(context_.model.norm_epsilon),
                                      .gamma = Parameter(first ? rows_.attention_norm_gain : rows_.mlp_norm_gain),
                                      .beta = Parameter(first ? rows_.attention_norm_bias : rows_.mlp_norm_bias),
                                      .normed = normed,
                                      .statistics = T(first ? plan_.norm1_statistics : plan_.norm2_statistics, kept)});
  }
  return {context_.region.Enter(normed, T(plan_.weight_gathered, kept)), copy};
}

void Block::FeedForwardWeight(const MicroBatch& micro_batch, char* kept, const Tensor& grad_branch) {
  Tensor active = T(plan_.ffn_active, kept);
  if (sizes_.recompute_activation) {
    active = T(plan_.reactivated, kept);
    context_.ops.ActivationForward(sizes_.gated ? ActivationKind::kSwiGlu : ActivationKind::kGelu,
                                   T(plan_.ffn_in, kept), active);
  }
  const bool untouched = context_.gradients.Untouched(micro_batch.first);
  linear_.WeightGradient({grad_branch, Copy8(plan_.grad_branch2_float8, kept)},
                         {active, Copy8(plan_.active_float8, kept)}, Gradient(rows_.mlp_out_weight), untouched);
  AddBiasGradient(context_.region.OwnRows(grad_branch), rows_.mlp_out_bias);
  const Tensor grad_before = T(plan_.grad_ffn_in, kept);
  linear_.WeightGradient({grad_before, Copy8(plan_.grad_ffn_in_float8, kept)}, NormedInside(kept, false),
                         Gradient(rows_.in_weight), untouched);
  AddBiasGradient(grad_before, rows_.in_bias);
}

void Block::AttentionWeight(const MicroBatch& micro_batch, char* kept, const Tensor& grad_branch) {
  const bool untouched = context_.gradients.Untouched(micro_batch.first);
  linear_.WeightGradient({grad_branch, Copy8(plan_.grad_branch1_float8, kept)},
                         {T(plan_.attention_out, kept), Copy8(plan_.attention_float8, kept)},
                         Gradient(rows_.out_weight), untouched);
  AddBiasGradient(context_.region.OwnRows(grad_branch), rows_.out_bias);
  const Tensor grad_qkv = T(plan_.grad_qkv, kept);
  linear_.WeightGradient({grad_qkv, Copy8(plan_.grad_qkv_float8, kept)}, NormedInside(kept, true),
                         Gradient(rows_.qkv_weight), untouched);
  AddBiasGradient(grad_qkv, rows_.qkv_bias);
}

void Block::AddNormGradients(char* kept) {
  const Tensor sums = T(plan_.norm_gradients, kept);
  const int rows[] = {rows_.attention_norm_gain, rows_.attention_norm_bias, rows_.mlp_norm_gain, rows_.mlp_norm_bias};
  for (int i = 0; i < 4; ++i) {
    if (rows[i] >= 0) {
      context_.ops.Add(Gradient(rows[i]), sums.Rows(i, 1).Reshaped({sizes_.hidden}));
    }
  }
}

Tensor Block::Backward(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor& grad_in) {
  if (PartsApart()) {
    return Module::Backward(micro_batch, kept, grad_out, grad_in);
  }
  if (sizes_.recompute_block) {
    context_.ops.set_recomputing(true);
    RunAttention(micro_batch, kept);
    RunFeedForward(kept);
    context_.ops.set_recomputing(false);
  }
  context_.ops.Fill(T(plan_.norm_gradients, kept), 0);
  FeedForwardInput(micro_batch, kept, grad_out);
  FeedForwardWeight(micro_batch, kept, plan_.grad_branch2.present() ? T(plan_.grad_branch2, kept) : grad_out);
  AttentionInput(micro_batch, kept, grad_in);
  AttentionWeight(micro_batch, kept, T(plan_.grad_branch1.present() ? plan_.grad_branch1 : plan_.grad_middle, kept));
  AddNormGradients(kept);
  return grad_in;
}

Tensor Block::BackwardInput(const MicroBatch& micro_batch, char* kept, const Tensor& grad_out, const Tensor& grad_in) {
  if (!PartsApart()) {
    return Backward(micro_batch, kept, grad_out, grad_in);  // a block computed again whole does both parts here
  }
  context_.ops.Fill(T(plan_.norm_gradients, kept), 0);
  FeedForwardInput(micro_batch, kept, grad_out);
  AttentionInput(micro_batch, kept, grad_in);
  return grad_in;
}

void Block::BackwardWeight(const MicroBatch& micro_batch, char* kept) {
  if (!PartsApart()) {
    return;
  }
  FeedForwardWeight(micro_batch, kept, T(plan_.grad_branch2, kept));
  AttentionWeight(micro_batch, kept, T(plan_.grad_branch1, kept));
  AddNormGradients(kept);
}

}  // namespace trireme
