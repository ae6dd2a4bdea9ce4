#include "nn/block_runner.h"

#include <cmath>

#include "nn/ring_attention.h"
#include "nn/swap_heads.h"

namespace trireme {

BlockRunner::BlockRunner(const Context& context, const LocalSizes& sizes, const BlockProgram& program)
    : context_(context), sizes_(sizes), attention_sizes_(sizes.OfAttention()), program_(program) {
  const ContextShare share = attention_sizes_.share();
  query_chunks_ = share.Chunks();
  for (int chunk = 0; chunk < share.chunks(); ++chunk) {
    const ChunkPlace place = PlaceOfChunk(share, chunk);
    key_chunks_.push_back(
        {.position = chunk * share.chunk(), .row = place.rank * attention_sizes_.tokens + place.first});
  }
}

// One function per kind of step.
struct BlockRunner::Executor {
  const BlockRunner& runner;
  const Context& context;
  const LocalSizes& sizes;
  const BlockProgram& program;
  const BlockCall& call;
  Ops& ops = context.ops;

  Tensor Buffer(BufferId id) const {
    if (id == kNoId) {
      return {};
    }
    if (id == kBlockOutput) {
      return call.output;
    }
    if (id == kGradOutput) {
      return call.grad_output;
    }
    if (id == kGradInput) {
      return call.grad_input;
    }
    const Place& place = program.buffers[static_cast<std::size_t>(id)];
    return TensorAt(place, call.kept, place.area == Area::kWeights ? call.weights : call.scratch);
  }
  int Row(int parameter) const { return context.rows[static_cast<std::size_t>(parameter)]; }
  Tensor Parameter(int parameter) const {
    return parameter == kNoId ? Tensor{} : context.parameters.Get(Row(parameter));
  }
  Tensor Gradient(int parameter) const { return context.gradients->Gradient(Row(parameter)); }
  float gain_offset() const { return static_cast<float>(context.model.gain_offset); }
  float attention_scale() const {
    const double scalar = context.model.query_scalar;
    return 1.0F / std::sqrt(scalar > 0 ? static_cast<float>(scalar) : static_cast<float>(sizes.head_size));
  }
  Dropout DropoutAt(int site) const {
    return DropoutOf(context.model, call.micro_batch, context.module, site, context.region.first_token(),
                     sizes.outside);
  }

  void operator()(const SumStep& step) const {
    ResidualNormArgs args{.x = Buffer(step.x),
                          .branch = Buffer(step.branch),
                          .bias = Parameter(step.branch_bias),
                          .sum = Buffer(step.sum)};
    if (step.site != kNoId) {
      args.dropout = DropoutAt(step.site);
    }
    ops.ResidualNormForward(args);
  }

  void operator()(const NormStep& step) const {
    ResidualNormArgs args{.x = Buffer(step.x),
                          .branch = Buffer(step.branch),
                          .bias = Parameter(step.branch_bias),
                          .sum = Buffer(step.sum),
                          .kind = context.model.norm,
                          .epsilon = static_cast<float>(context.model.norm_epsilon),
                          .gain_offset = gain_offset(),
                          .gamma = Parameter(step.gain),
                          .beta = Parameter(step.bias),
                          .normed = Buffer(step.normed),
                          .statistics = Buffer(step.statistics),
                          .largest = Buffer(step.largest)};
    if (step.site != kNoId) {
      args.dropout = DropoutAt(step.site);
    }
    ops.ResidualNormForward(args);
  }

  void operator()(const NormBackwardStep& step) const {
    const auto gradient = [&](int row) {
      return Buffer(step.gradients).Rows(2 * step.norm + row, 1).Reshaped({sizes.hidden});
    };
    const bool has_bias = step.bias != kNoId;
    const Tensor normed = Buffer(step.normed);
    ops.NormBackward({.grad_normed = Buffer(step.grad_normed),
                      .x = Buffer(step.x),
                      .statistics = Buffer(step.statistics),
                      .kind = context.model.norm,
                      .gain_offset = gain_offset(),
                      .gamma = Parameter(step.gain),
                      .grad_residual = Buffer(step.grad_residual),
                      .grad_x = Buffer(step.grad_x),
                      .grad_gamma = gradient(0),
                      .grad_beta = has_bias ? gradient(1) : Tensor{},
                      .beta = normed.given() ? Parameter(step.bias) : Tensor{},
                      .normed = normed,
                      .largest = Buffer(step.largest)});
  }

  void operator()(const EnterStep& step) const {
    const Tensor to = Buffer(step.to);
    context.region.Enter(step.in_place ? context.region.OwnRows(to) : Buffer(step.from), to);
  }

  void operator()(const LeaveStep& step) const { context.region.Leave(Buffer(step.from), Buffer(step.to)); }

  void operator()(const ProductStep& step) const {
    MatmulArgs args{.a = Buffer(step.a),
                    .scale_a = Buffer(step.scale_a),
                    .scale_b = Buffer(step.scale_b),
                    .equal_on_ranks = step.copied};
    const bool float8 = step.scale_a != kNoId;  // whose second operand always lies transposed
    if (step.kind == ProductKind::kWeightGradient) {
      args.b = Buffer(step.b);
      args.c = Gradient(step.weight);
      args.transpose_a = !float8;
      args.transpose_b = float8;
      args.accumulate = !context.gradients->Untouched(Row(step.weight), call.micro_batch.first);
    } else {
      args.b = float8 ? Buffer(step.b) : Parameter(step.weight);
      args.weight_version = float8 ? 0 : context.parameters.Version(Row(step.weight));
      args.c = Buffer(step.c);
      args.transpose_b = float8 || step.kind == ProductKind::kForward;
      args.bias = Parameter(step.bias);
      args.epilogue = step.epilogue;
      args.auxiliary = Buffer(step.auxiliary);
      args.largest = Buffer(step.largest);
      args.accumulate = step.added;
    }
    ops.Matmul(args);
    if (step.scale != 1) {
      ops.Scale(args.c, step.scale);
    }
  }

  void operator()(const QuantizeStep& step) const {
    if (step.once && !call.micro_batch.first) {
      return;
    }
    ops.Quantize({.from = step.weight == kNoId ? Buffer(step.from) : Parameter(step.weight),
                  .rows = Buffer(step.rows),
                  .columns = Buffer(step.columns),
                  .scale = Buffer(step.scale),
                  .largest = Buffer(step.largest),
                  .column_sums = step.bias == kNoId ? Tensor{} : Gradient(step.bias),
                  .guess = call.weights == nullptr ? Tensor{} : Buffer(step.guess)});
  }

  template <typename Step>
  HeadNormArgs HeadNorm(const Step& step) const {
    return {.heads = sizes.heads,
            .kv_heads = sizes.kv_heads,
            .head_size = sizes.head_size,
            .together = step.together,
            .parts = step.together ? sizes.tensor : 1,
            .epsilon = static_cast<float>(context.model.norm_epsilon),
            .gain_offset = gain_offset(),
            .x = Buffer(step.x),
            .query_gain = Parameter(step.query_gain),
            .key_gain = Parameter(step.key_gain),
            .sums = Buffer(step.sums)};
  }

  void operator()(const HeadNormStep& step) const {
    HeadNormArgs args = HeadNorm(step);
    args.out = Buffer(step.out);
    if (step.again) {
      ops.HeadNormAgain(args);
    } else {
      ops.HeadNormForward(args, [&] { context.region.group().AllReduce(args.sums); });
    }
  }

  void operator()(const HeadNormBackwardStep& step) const {
    HeadNormArgs args = HeadNorm(step);
    args.grad_out = args.grad_x = Buffer(step.grad);
    args.products = Buffer(step.products);
    args.grad_query_gain = Buffer(step.query_gradient);
    args.grad_key_gain = Buffer(step.key_gradient);
    ops.HeadNormBackward(args, [&] { context.region.group().AllReduce(args.products); });
  }

  void operator()(const RotaryStep& step) const {
    const bool cached = call.cache.capacity > 0;
    ops.Rotary({.qkv = Buffer(step.qkv),
                .sequence = cached              ? call.cache.capacity
                            : sizes.context > 1 ? sizes.keys
                                                : sizes.sequence,
                .heads = sizes.heads,
                .kv_heads = sizes.kv_heads,
                .head_size = sizes.head_size,
                .frequencies = context.angles.frequencies,
                .magnitude = context.angles.magnitude,
                .inverse = step.inverse,
                .positions = cached ? call.cache.positions : call.micro_batch.PositionsOrPlaces()});
  }

  // This rank's rows of all ranks' keys and values.
  Tensor OwnPart(const Tensor& kv) const {
    return kv.Rows(context.sequence_group->rank() * sizes.tokens, sizes.tokens);
  }

  void operator()(const GatherKeysStep& step) const {
    const Tensor kv = Buffer(step.kv);
    ops.CopyBlocks(CopyOfKeys(sizes, Buffer(step.qkv), OwnPart(kv)));
    context.sequence_group->AllGather(OwnPart(kv), kv);
  }

  void operator()(const ReduceKeysStep& step) const {
    const Tensor grad_kv = Buffer(step.grad_kv);
    context.sequence_group->ReduceScatter(grad_kv, OwnPart(grad_kv));
    ops.CopyBlocks(CopyToKeys(sizes, OwnPart(grad_kv), Buffer(step.grad_qkv)));
  }

  void operator()(const SwapHeadsStep& step) const {
    const HeadSwap swap{.ops = ops, .group = *context.heads_group, .sizes = sizes, .packed = step.packed};
    if (step.to_heads) {
      swap.ToHeads(Buffer(step.from), Buffer(step.to), Buffer(step.staging));
    } else {
      swap.ToTokens(Buffer(step.from), Buffer(step.to), Buffer(step.staging));
    }
  }

  // Of this tensor rank's heads, the first that attention has here.
  std::int64_t FirstOwnHead() const { return sizes.context_rank % sizes.head_ranks * (sizes.heads / sizes.head_ranks); }
  // The same of all heads.
  std::int64_t FirstHead() const { return context.region.group().rank() * sizes.heads + FirstOwnHead(); }

  // The slopes of the heads that attention has here.
  Tensor Slopes() const {
    if (!sizes.ulysses || !context.slopes.given()) {
      return context.slopes;
    }
    return context.slopes.Range(FirstOwnHead(), sizes.heads / sizes.head_ranks);
  }

  AttentionArgs Attention(BufferId qkv, BufferId out, BufferId statistics, BufferId kv) const {
    const LocalSizes& own = runner.attention_sizes_;
    return {.batch = own.batch,
            .sequence = own.sequence,
            .heads = own.heads,
            .kv_heads = own.kv_heads,
            .head_size = sizes.head_size,
            .scale = attention_scale(),
            .window = sizes.window,
            .cap = static_cast<float>(context.model.attention_cap),
            .dropout = AttentionDropoutOf(context.model, call.micro_batch, context.module, FirstHead()),
            .all_heads = context.model.heads,
            .all_positions = context.model.sequence,
            .slopes = Slopes(),
            .document_starts = call.micro_batch.document_starts,
            .qkv = Buffer(qkv),
            .out = Buffer(out),
            .statistics = Buffer(statistics),
            .query_chunks = runner.query_chunks_,
            .key_chunks = runner.key_chunks_,
            .kv = Buffer(kv)};
  }

  void operator()(const AttentionStep& step) const {
    AttentionArgs args = Attention(step.qkv, step.out, step.statistics, step.kv);
    args.weights = Buffer(step.weights);
    args.scores = Buffer(step.scores);
    if (call.cache.capacity == 0) {
      ops.AttentionForward(args);
      return;
    }
    ops.DecodeAttention({.batch = args.batch,
                         .queries = args.sequence,
                         .capacity = call.cache.capacity,
                         .heads = args.heads,
                         .kv_heads = args.kv_heads,
                         .head_size = args.head_size,
                         .scale = args.scale,
                         .window = args.window,
                         .cap = args.cap,
                         .slopes = args.slopes,
                         .starts = call.cache.starts,
                         .qkv = args.qkv,
                         .keys = call.cache.keys,
                         .values = call.cache.values,
                         .out = args.out});
  }

  RingAttention Ring(BufferId scratch) const {
    return {.ops = ops,
            .group = *context.ring_group,
            .sizes = runner.attention_sizes_,
            .scratch = Buffer(scratch).as<char>(),
            .device = context.device};
  }

  void operator()(const RingAttentionStep& step) const {
    Ring(step.scratch).Forward(Attention(step.qkv, step.out, step.statistics, kNoId));
  }

  void operator()(const RingAttentionBackwardStep& step) const {
    AttentionArgs args = Attention(step.qkv, step.out, step.statistics, kNoId);
    args.grad_out = Buffer(step.grad_out);
    args.grad_qkv = Buffer(step.grad_qkv);
    Ring(step.scratch).Backward(args);
  }

  void operator()(const AttentionBackwardStep& step) const {
    AttentionArgs args = Attention(step.qkv, step.out, step.statistics, step.kv);
    args.grad_out = Buffer(step.grad_out);
    args.grad_qkv = Buffer(step.grad_qkv);
    args.grad_kv = Buffer(step.grad_kv);
    args.weights = Buffer(step.weights);
    args.scores = Buffer(step.scores);
    ops.AttentionBackward(args);
  }

  void operator()(const ActivationStep& step) const {
    ops.ActivationForward(context.model.feed_forward, Buffer(step.from), Buffer(step.to), Buffer(step.largest));
  }

  void operator()(const ActivationBackwardStep& step) const {
    ops.ActivationBackward(context.model.feed_forward, Buffer(step.grad_out), Buffer(step.from), Buffer(step.grad_from),
                           Buffer(step.largest));
  }

  void operator()(const DropoutStep& step) const {
    const Tensor to = Buffer(step.to);
    ops.ApplyDropout(step.own_rows ? context.region.OwnRows(to) : to, Buffer(step.from), DropoutAt(step.site));
  }

  void operator()(const BiasGradientStep& step) const {
    const Tensor rows = Buffer(step.rows);
    ops.BiasGradient(step.own_rows ? context.region.OwnRows(rows) : rows, Gradient(step.bias));
  }

  void operator()(const ClearStep& step) const { ops.Fill(Buffer(step.buffer), 0); }

  void operator()(const AddGradientStep& step) const {
    const Tensor from = Buffer(step.from);
    ops.Add(Gradient(step.parameter), from.Rows(step.row, 1).Reshaped({from.shape[1]}));
  }
};

void BlockRunner::Run(std::span<const BlockStep> steps, const BlockCall& call) {
  const Executor executor{*this, context_, sizes_, program_, call};
  bool recomputing = false;
  for (const BlockStep& step : steps) {
    if (step.recomputed != recomputing) {
      recomputing = step.recomputed;
      context_.ops.set_recomputing(recomputing);
    }
    std::visit(executor, step.work);
  }
  if (recomputing) {
    context_.ops.set_recomputing(false);
  }
}

}  // namespace trireme
