#include "nn/head.h"

#include <algorithm>

namespace trireme {

Head::Head(const ModuleContext& context, const LocalSizes& sizes, std::int64_t chunk)
    : context_(context), sizes_(sizes), plan_(sizes, chunk), rows_(PlacesOfHead(context.table)) {}

Module::Uses Head::uses() const {
  const std::int64_t module = context_.model.modules() - 1;
  const ParameterUse all{.module = module, .own = true, .tied = context_.model.tie_embeddings};
  const ParameterUse none{.module = module, .own = false, .tied = false};
  return {.forward = all,
          .backward_input = none,
          .backward_weight = none,
          .forward_gradients = context_.model.adapter.any() ? none : all,
          .input_gradients = none,
          .weight_gradients = none};
}

void Head::Forward(const MicroBatch& micro_batch, char* kept, const Tensor&) {
  Ops& ops = context_.ops;
  const Tensor input = Input(kept);
  const Tensor gain = Parameter(rows_.norm_gain);
  ops.ResidualNormForward({.x = input,
                           .kind = context_.model.norm,
                           .epsilon = static_cast<float>(context_.model.norm_epsilon),
                           .gain_offset = static_cast<float>(context_.model.gain_offset),
                           .gamma = gain,
                           .beta = Parameter(rows_.norm_bias),
                           .normed = Scratch(plan_.normed),
                           .statistics = Scratch(plan_.statistics)});
  const Tensor inside = context_.region.Enter(Scratch(plan_.normed), Scratch(plan_.gathered));
  for (std::int64_t first = 0; first < sizes_.tokens; first += plan_.chunk) {
    RunChunk(micro_batch, inside, first, std::min(plan_.chunk, sizes_.tokens - first));
  }
  ops.LossSum(Scratch(plan_.losses), micro_batch.weights, micro_batch.loss_sums);
  if (!micro_batch.training) {
    return;
  }
  const Tensor grad_normed = context_.region.Leave(Scratch(plan_.grad_inside), Scratch(plan_.grad_normed));
  ops.NormBackward({.grad_normed = grad_normed,
                    .x = input,
                    .statistics = Scratch(plan_.statistics),
                    .kind = context_.model.norm,
                    .gain_offset = static_cast<float>(context_.model.gain_offset),
                    .gamma = gain,
                    .grad_x = grad_normed,
                    .grad_gamma = NormGradient(rows_.norm_gain, 0),
                    .grad_beta = NormGradient(rows_.norm_bias, 1)});
  ops.Copy(input, grad_normed);
}

Tensor Head::NormGradient(int row, std::int64_t place) const {
  if (row < 0) {
    return {};
  }
  return sizes_.frozen ? Scratch(plan_.unused_gradients).Rows(place, 1).Reshaped({sizes_.hidden})
                       : context_.gradients.Gradient(row);
}

void Head::RunChunk(const MicroBatch& micro_batch, const Tensor& inside, std::int64_t first, std::int64_t rows) {
  Ops& ops = context_.ops;
  Communicator& group = context_.region.group();
  const Tensor weight = Parameter(rows_.weight);
  const Tensor hidden = inside.Rows(first, rows);
  const Tensor logits = Scratch(plan_.logits).Rows(0, rows);
  const std::int64_t version = context_.parameters.Version(rows_.weight);
  ops.Matmul({.a = hidden, .b = weight, .c = logits, .transpose_b = true, .weight_version = version});
  const auto cap = static_cast<float>(context_.model.logit_cap);
  if (cap > 0) {
    ops.SoftCap(logits, cap);
  }
  const std::int64_t first_column = group.rank() * sizes_.vocabulary;
  const Tensor statistics = Scratch(plan_.loss_statistics).Range(0, sizes_.tensor * 3 * rows);
  const Tensor own = statistics.Range(group.rank() * 3 * rows, 3 * rows);
  const auto exchange = [&] { group.AllGather(own, statistics); };
  const CrossEntropyArgs loss{
      .logits = logits,
      .first_column = first_column,
      .valid_columns = std::clamp<std::int64_t>(context_.model.vocabulary - first_column, 0, sizes_.vocabulary),
      .targets = micro_batch.targets.Rows(first, rows),
      .statistics = statistics,
      .weights = micro_batch.weights.Rows(first, rows),
      .scale = micro_batch.loss_scale,
      .z_loss = context_.z_loss,
      .cap = cap,
      .losses = Scratch(plan_.losses).Rows(first, rows)};
  if (!micro_batch.training) {
    if (micro_batch.logits != nullptr) {
      (*micro_batch.logits)(
          {.logits = logits, .first_token = first, .first_column = first_column, .columns = loss.valid_columns});
    }
    ops.CrossEntropyStatistics(loss, own);
    exchange();
    return ops.CrossEntropyLoss(loss);
  }
  ops.CrossEntropy(loss, own, exchange);
  ops.Matmul({.a = logits, .b = weight, .c = Scratch(plan_.grad_inside).Rows(first, rows), .weight_version = version});
  if (sizes_.frozen) {
    return;
  }
  ops.Matmul({.a = logits,
              .b = hidden,
              .c = context_.gradients.Gradient(rows_.weight),
              .transpose_a = true,
              .accumulate = first > 0 || !context_.gradients.Untouched(rows_.weight, micro_batch.first)});
}

}  // namespace trireme
