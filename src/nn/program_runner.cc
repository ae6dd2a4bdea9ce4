#include "nn/program_runner.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "nn/ring_attention.h"
#include "nn/swap_heads.h"

namespace trireme {

ProgramRunner::ProgramRunner(const Context& context, const LocalSizes& sizes, const ModuleProgram& program)
    : context_(context), sizes_(sizes), attention_sizes_(sizes.OfAttention()), program_(program) {
  const ContextShare share = attention_sizes_.share();
  query_chunks_ = share.Chunks();
  for (int chunk = 0; chunk < share.chunks(); ++chunk) {
    const ChunkPlace place = PlaceOfChunk(share, chunk);
    key_chunks_.push_back(
        {.position = chunk * share.chunk(), .row = place.rank * attention_sizes_.tokens + place.first});
  }
}

// Executes each kind of step.
struct ProgramRunner::Executor {
  const ProgramRunner& runner;
  const Context& context;
  const LocalSizes& sizes;
  const ModuleProgram& program;
  const ProgramCall& call;
  Ops& ops = context.ops;
  // The rows that chunked steps work on; 0: all.
  std::int64_t first_row = 0;
  std::int64_t rows = 0;

  // A tensor's rows that chunked steps work on: see ProgramStep::chunked.
  Tensor Chunk(const Tensor& tensor) const {
    if (rows == 0 || !tensor.given()) {
      return tensor;
    }
    return tensor.Rows(tensor.shape[0] == program.rows ? first_row : 0, rows);
  }
  Tensor Buffer(BufferId id) const { return Chunk(WholeBuffer(id)); }
  Tensor WholeBuffer(BufferId id) const {
    if (id == kNoId) {
      return {};
    }
    const Place& place = program.buffers[static_cast<std::size_t>(id)];
    if (place.area == Area::kGiven) {
      return call.given[static_cast<std::size_t>(id)];
    }
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
    const float scale =
        context.model.attention_multiplier > 0
            ? static_cast<float>(context.model.attention_multiplier)
            : 1.0F / std::sqrt(scalar > 0 ? static_cast<float>(scalar) : static_cast<float>(sizes.head_size));
    // Block i is module i + 1.
    return context.model.scores_by_layer ? scale / static_cast<float>(context.module) : scale;
  }
  Dropout DropoutAt(int site) const {
    return DropoutOf(context.model, call.micro_batch, context.module, site, FirstToken(), sizes.outside);
  }

  // An operation of ops/operations.h: tensors by its list, choices by Choose.
  template <template <typename> class Op>
  void operator()(const Op<TensorId>& step) const {
    constexpr auto kFrom = Op<TensorId>::Operands();
    constexpr auto kTo = Op<Tensor>::Operands();
    Op<Tensor> op;
    for (std::size_t i = 0; i < kFrom.size(); ++i) {
      op.*kTo[i].member = At(kFrom[i].owner, step.*kFrom[i].member);
    }
    Choose(step, op);
    ops.Run(op);
  }
  Tensor At(Owner owner, TensorId tensor) const {
    if (!tensor.given()) {
      return {};
    }
    switch (owner) {
      case Owner::kBuffer:
        return Buffer(tensor.id);
      case Owner::kParameter:
        return Parameter(tensor.id);
      case Owner::kGradient:
        return Gradient(tensor.id);
      case Owner::kBatch:
        return Batch(static_cast<BatchTensor>(tensor.id));
    }
    return {};
  }

  // What the model, the rank and the call decide of an operation.
  template <typename Step, typename Op>
  void Choose(const Step& /*step*/, Op& /*op*/) const {}
  void Choose(const ActivationForward<TensorId>& /*step*/, ActivationForward<Tensor>& op) const {
    op.kind = context.model.feed_forward;
  }
  void Choose(const ActivationBackward<TensorId>& /*step*/, ActivationBackward<Tensor>& op) const {
    op.kind = context.model.feed_forward;
  }
  void Choose(const WeightedActivation<TensorId>& /*step*/, WeightedActivation<Tensor>& op) const {
    op.kind = context.model.feed_forward;
  }
  void Choose(const WeightedActivationBackward<TensorId>& /*step*/, WeightedActivationBackward<Tensor>& op) const {
    op.kind = context.model.feed_forward;
  }
  void Choose(const Route<TensorId>& step, Route<Tensor>& op) const { op.router = step.router; }
  // Tensor ranks have parts of the gradient of a choice's weights, whose sum counts. The losses of the router are whole
  // on each of them: one adds their gradient.
  void Choose(const RouteBackward<TensorId>& step, RouteBackward<Tensor>& op) const {
    op.router = step.router;
    if (context.tensor_group.rank() == 0) {
      op.balance = call.micro_batch.gradient_factor * static_cast<float>(context.model.experts.balance_loss);
      op.z = call.micro_batch.gradient_factor * static_cast<float>(context.model.experts.z_loss);
    }
  }
  void Choose(const Rotary<TensorId>& step, Rotary<Tensor>& op) const {
    const bool cached = call.cache.capacity > 0;
    op.sequence = cached ? call.cache.capacity : sizes.context > 1 ? sizes.keys : sizes.sequence;
    op.heads = sizes.heads;
    op.kv_heads = sizes.kv_heads;
    op.head_size = sizes.head_size;
    op.frequencies = context.angles.frequencies;
    op.magnitude = context.angles.magnitude;
    op.inverse = step.inverse;
    op.positions = cached ? call.cache.positions : call.micro_batch.PositionsOrPlaces();
  }
  void Choose(const AddPositions<TensorId>& /*step*/, AddPositions<Tensor>& op) const {
    op.table = RowsOfPositions(op.table);
    op.first_token = FirstToken();
  }
  void Choose(const PositionsBackward<TensorId>& /*step*/, PositionsBackward<Tensor>& op) const {
    op.grad_table = RowsOfPositions(op.grad_table);
    op.first_token = FirstToken();
  }
  // The rows of the position table, or of its gradient, that stand for positions 0, 1, …
  Tensor RowsOfPositions(const Tensor& table) const {
    return table.Rows(context.model.position_offset, context.model.sequence);
  }
  void Choose(const SoftCap<TensorId>& /*step*/, SoftCap<Tensor>& op) const { op.cap = logit_cap(); }

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
    const auto gradient = [&](int row, int parameter) {
      return step.gradients == kNoId ? Gradient(parameter)
                                     : Buffer(step.gradients).Rows(2 * step.norm + row, 1).Reshaped({sizes.hidden});
    };
    const Tensor normed = Buffer(step.normed);
    ops.NormBackward({.grad_normed = Buffer(step.grad_normed),
                      .x = Buffer(step.x),
                      .statistics = Buffer(step.statistics),
                      .kind = context.model.norm,
                      .gain_offset = gain_offset(),
                      .gamma = Parameter(step.gain),
                      .grad_residual = Buffer(step.grad_residual),
                      .grad_x = Buffer(step.grad_x),
                      .grad_gamma = gradient(0, step.gain),
                      .grad_beta = step.bias == kNoId ? Tensor{} : gradient(1, step.bias),
                      .beta = normed.given() ? Parameter(step.bias) : Tensor{},
                      .normed = normed,
                      .largest = Buffer(step.largest)});
  }

  Communicator& Group(ProgramGroup group) const {
    switch (group) {
      case ProgramGroup::kTensor:
        return context.tensor_group;
      case ProgramGroup::kContext:
        return *context.sequence_group;
      case ProgramGroup::kHeads:
        return *context.heads_group;
    }
    return context.tensor_group;
  }
  // This rank's part of a tensor that has one for every rank of the group.
  static Tensor PartOf(const Communicator& group, const Tensor& whole) {
    const std::int64_t count = whole.count() / group.size();
    return whole.Range(group.rank() * count, count);
  }

  void operator()(const CollectiveStep& step) const {
    Communicator& group = Group(step.group);
    const Tensor from = Buffer(step.from);
    const Tensor to = Buffer(step.to);
    const bool in_place = step.from == step.to;
    switch (step.kind) {
      case CollectiveKind::kAllReduce:
        return group.AllReduce(to);
      case CollectiveKind::kAllGather:
        return group.AllGather(in_place ? PartOf(group, to) : from, to);
      case CollectiveKind::kReduceScatter:
        return group.ReduceScatter(from, in_place ? PartOf(group, to) : to);
      case CollectiveKind::kAllToAll:
        return group.AllToAll(from, to);
      case CollectiveKind::kBroadcast:
      case CollectiveKind::kSend:
      case CollectiveKind::kReceive:
      case CollectiveKind::kBarrier:
        break;
    }
    Fail("a program has no {} among its steps", Name(step.kind));
  }

  // The first of the tokens that this tensor rank holds outside the tensor region.
  std::int64_t FirstToken() const { return sizes.sequence_parallel ? context.tensor_group.rank() * sizes.outside : 0; }
  // This tensor rank's rows of a tensor of all tokens.
  Tensor OwnRows(const Tensor& inside) const {
    return sizes.sequence_parallel ? inside.Rows(FirstToken(), sizes.outside) : inside;
  }

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
      args.accumulate = first_row > 0 || !context.gradients->Untouched(Row(step.weight), call.micro_batch.first);
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
  }

  // Runs in training alone: an evaluation leaves the loads of a step as they are.
  void operator()(const AddLoad<TensorId>& step) const {
    if (call.micro_batch.training && call.weights != nullptr) {
      ops.Run(AddLoad<Tensor>{
          .offsets = Buffer(step.offsets.id), .load = Buffer(step.load.id), .first = call.micro_batch.first});
    }
  }

  void operator()(const GroupedProductStep& step) const {
    GroupedMatmulArgs args{.product = step.product, .a = Buffer(step.a), .offsets = Buffer(step.offsets)};
    if (step.product == GroupedProduct::kWeightGradient) {
      args.b = Buffer(step.b);
      args.c = Gradient(step.weight);
      args.accumulate = !context.gradients->Untouched(Row(step.weight), call.micro_batch.first);
    } else {
      args.b = Parameter(step.weight);
      args.weight_version = context.parameters.Version(Row(step.weight));
      args.c = Buffer(step.c);
    }
    ops.GroupedMatmul(args);
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
    if (step.out == kNoId) {
      return ops.HeadNormSums(args);
    }
    args.out = Buffer(step.out);
    ops.HeadNormForward(args);
  }

  void operator()(const HeadNormBackwardStep& step) const {
    HeadNormArgs args = HeadNorm(step);
    args.grad_out = args.grad_x = Buffer(step.grad);
    args.products = Buffer(step.products);
    if (step.query_gradient == kNoId) {
      return ops.HeadNormProducts(args);
    }
    args.grad_query_gain = Buffer(step.query_gradient);
    args.grad_key_gain = Buffer(step.key_gradient);
    ops.HeadNormBackward(args);
  }

  void operator()(const CopyKeysStep& step) const {
    const Tensor qkv = Buffer(step.qkv);
    const Tensor own = Buffer(step.kv).Rows(context.sequence_group->rank() * sizes.tokens, sizes.tokens);
    ops.CopyBlocks(step.back ? CopyToKeys(sizes, own, qkv) : CopyOfKeys(sizes, qkv, own));
  }

  void operator()(const CopyHeadsStep& step) const {
    HeadCopies{.ops = ops, .sizes = sizes, .packed = step.packed, .back = step.back}.Copy(step.order, Buffer(step.from),
                                                                                          Buffer(step.to));
  }

  // The first of this tensor rank's heads that attention has here.
  std::int64_t FirstOwnHead() const { return sizes.context_rank % sizes.head_ranks * (sizes.heads / sizes.head_ranks); }
  // Its number among all heads.
  std::int64_t FirstHead() const { return context.tensor_group.rank() * sizes.heads + FirstOwnHead(); }

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

  void operator()(const DropoutStep& step) const {
    const Tensor to = Buffer(step.to);
    ops.ApplyDropout(step.own_rows ? OwnRows(to) : to, Buffer(step.from), DropoutAt(step.site));
  }

  void operator()(const BiasGradientStep& step) const {
    const Tensor matrix = Buffer(step.rows);
    ops.BiasGradient(step.own_rows ? OwnRows(matrix) : matrix, Gradient(step.bias));
  }

  void operator()(const ClearStep& step) const { ops.Fill(Buffer(step.buffer), 0); }

  void operator()(const AddGradientStep& step) const {
    const Tensor from = Buffer(step.from);
    ops.Add(Gradient(step.parameter), from.Rows(step.row, 1).Reshaped({from.shape[1]}));
  }

  // The vocabulary's rows that are here, padding included.
  std::int64_t FirstVocabularyRow() const { return context.tensor_group.rank() * sizes.vocabulary; }
  Tensor Batch(BatchTensor tensor) const {
    const MicroBatch& batch = call.micro_batch;
    switch (tensor) {
      case BatchTensor::kTokens:
        return Chunk(batch.tokens);
      case BatchTensor::kTargets:
        return Chunk(batch.targets);
      case BatchTensor::kWeights:
        return Chunk(batch.weights);
      case BatchTensor::kPositions: {
        const Tensor& positions = batch.PositionsOrPlaces();
        return positions.given() ? OwnRows(positions) : Tensor{};
      }
      case BatchTensor::kLossSums:
        return batch.loss_sums;
    }
    return {};
  }

  void operator()(const LookupStep& step) const {
    ops.EmbeddingForward({.tokens = Batch(step.tokens),
                          .table = Parameter(step.table),
                          .first_row = FirstVocabularyRow(),
                          .out = Buffer(step.out)});
  }

  void operator()(const LookupBackwardStep& step) const {
    ops.EmbeddingBackward({.tokens = Batch(step.tokens),
                           .first_row = FirstVocabularyRow(),
                           .grad_out = Buffer(step.grad_out),
                           .grad_table = Gradient(step.table)});
  }

  void operator()(const ScaleStep& step) const { ops.Scale(Buffer(step.x), step.factor); }
  void operator()(const CopyStep& step) const { ops.Copy(Buffer(step.to), Buffer(step.from)); }

  float logit_cap() const { return static_cast<float>(context.model.logit_cap); }

  std::int64_t ValidColumns() const {
    return std::clamp<std::int64_t>(context.model.vocabulary - FirstVocabularyRow(), 0, sizes.vocabulary);
  }

  void operator()(const ShowLogitsStep& step) const {
    if (call.micro_batch.logits != nullptr) {
      (*call.micro_batch.logits)({.logits = Buffer(step.logits),
                                  .first_token = first_row,
                                  .first_column = FirstVocabularyRow(),
                                  .columns = ValidColumns()});
    }
  }

  CrossEntropyArgs Loss(BufferId logits, BufferId statistics) const {
    return {.logits = Buffer(logits),
            .first_column = FirstVocabularyRow(),
            .valid_columns = ValidColumns(),
            .targets = Batch(BatchTensor::kTargets),
            .statistics = Buffer(statistics),
            .weights = Batch(BatchTensor::kWeights),
            .scale = call.micro_batch.gradient_factor,
            .z_loss = context.z_loss,
            .cap = logit_cap()};
  }

  void operator()(const LossStatisticsStep& step) const {
    const CrossEntropyArgs args = Loss(step.logits, step.statistics);
    ops.CrossEntropyStatistics(args, PartOf(context.tensor_group, args.statistics));
  }

  void operator()(const CrossEntropyStep& step) const {
    CrossEntropyArgs args = Loss(step.logits, step.statistics);
    args.losses = Buffer(step.losses);
    if (!step.gradient) {
      ops.CrossEntropyEvaluation(args);
    } else if (sizes.tensor == 1) {
      ops.CrossEntropy(args);
    } else {
      ops.CrossEntropyGradient(args);
    }
  }

  void operator()(const LossSumStep& step) const {
    ops.LossSum(Buffer(step.losses), Batch(BatchTensor::kWeights), Batch(BatchTensor::kLossSums));
  }
};

void ProgramRunner::Run(std::span<const ProgramStep> steps, const ProgramCall& call) {
  Executor executor{*this, context_, sizes_, program_, call};
  bool recomputing = false;
  for (auto step = steps.begin(); step != steps.end();) {
    if (step->recomputed != recomputing) {
      recomputing = step->recomputed;
      context_.ops.set_recomputing(recomputing);
    }
    if (!step->chunked) {
      std::visit(executor, step++->work);
      continue;
    }
    const auto end = std::find_if(step, steps.end(), [](const ProgramStep& each) { return !each.chunked; });
    for (std::int64_t first = 0; first < program_.rows; first += program_.chunk) {
      executor.first_row = first;
      executor.rows = std::min(program_.chunk, program_.rows - first);
      std::for_each(step, end, [&](const ProgramStep& each) { std::visit(executor, each.work); });
    }
    executor.first_row = executor.rows = 0;
    step = end;
  }
  if (recomputing) {
    context_.ops.set_recomputing(false);
  }
}

}  // namespace trireme
