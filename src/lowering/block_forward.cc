// The rules of forward: which steps each operation of a block becomes.
#include "lowering/block_lowering.h"

namespace trireme {

Lowering::Pass Lowering::Forward(std::vector<ProgramStep>& steps, int end, bool recomputed) {
  out_ = &steps;
  recomputed_ = recomputed;
  Pass pass{
      std::vector<BufferId>(block_.values.size(), kNoId),     std::vector<BufferId>(block_.operations.size(), kNoId),
      std::vector<Float8Copy>(block_.operations.size()),      std::vector<ContextBuffers>(block_.operations.size()),
      std::vector<BufferId>(block_.operations.size(), kNoId), Choice{}};
  pass.value[0] = kModuleInput;
  for (int i = 0; i < end; ++i) {
    const BlockOperation& operation = Operation(i);
    BufferId& to = pass.value[static_cast<std::size_t>(operation.output)];
    BufferId& statistics = pass.statistics[static_cast<std::size_t>(i)];
    const BufferId from = pass.value[static_cast<std::size_t>(operation.input)];
    if (to != kNoId) {
      continue;  // fused with the operation before
    }
    switch (operation.op) {
      case BlockOp::kNorm:
        to = ForValue(operation.output);
        statistics = NormStatistics(operation.input);
        Emit(NormStep{
            .x = from, .normed = to, .statistics = statistics, .gain = operation.weight, .bias = operation.bias});
        break;
      case BlockOp::kEnter:
        to = sizes_.sequence_parallel ? ForValue(operation.output) : from;
        if (sizes_.sequence_parallel) {
          Emit(EnterRegion(from, to));
        }
        break;
      case BlockOp::kLinear:
        ForwardLinear(pass, i, end);
        break;
      case BlockOp::kHeadNorm:
        to = ForValue(operation.output);
        statistics = NewBuffer(kStatisticsFloat, HeadNormSums(operation));
        Emit(HeadNormOf(operation, from, kNoId, statistics));
        ExchangeOfHeads(operation, statistics);
        Emit(HeadNormOf(operation, from, to, statistics));
        break;
      case BlockOp::kRotary:
        to = from;
        Emit(Rotary<TensorId>{.qkv = {from}});
        break;
      case BlockOp::kScale:
        to = from;
        Emit(ScaleStep{.x = from, .factor = static_cast<float>(operation.factor)});
        break;
      case BlockOp::kAttention:
        to = ForValue(operation.output);
        pass.context[static_cast<std::size_t>(i)] = EmitAttention(from, to, statistics);
        break;
      case BlockOp::kActivation:
        to = ForValue(operation.output);
        if (operation.choice != kNoId) {
          EmitWeightedActivation(from, to, pass.choice);
        } else {
          Emit(ActivationForward<TensorId>{.from = {from}, .to = {to}});
        }
        break;
      case BlockOp::kLeave:
        to = sizes_.sequence_parallel ? ForValue(operation.output) : from;
        if (sizes_.tensor > 1) {
          Emit(LeaveRegion(sizes_, from, to));
        }
        break;
      case BlockOp::kAdd:
        ForwardAdd(pass, i, end);
        break;
      case BlockOp::kRoute:
        ForwardRoute(pass, operation);
        break;
      case BlockOp::kDispatch:
        to = ForValue(operation.output);
        EmitGather(from, to, pass.choice);
        break;
      case BlockOp::kCombine:
        ForwardCombine(pass, operation);
        break;
    }
  }
  recomputed_ = false;
  return pass;
}

Lowering::ContextBuffers Lowering::EmitAttention(BufferId qkv, BufferId out, BufferId& statistics) {
  statistics = NewBuffer(kStatisticsFloat, {sizes_.batch, sizes_.heads, sizes_.sequence});  // of any kind as many
  const auto ring = [&](BufferId from, BufferId to) {
    Emit(RingAttentionStep{.qkv = from, .out = to, .statistics = statistics, .scratch = RingScratch(false)});
  };
  const BufferId scores = sizes_.attention_dropout ? Scores() : kNoId;
  if (sizes_.ulysses) {
    const ContextBuffers whole{
        .qkv = ToHeads(qkv, true),
        .out = NewBuffer(sizes_.dtype, {sizes_.head_ranks * sizes_.tokens, sizes_.attention / sizes_.head_ranks}),
        .weights = Scores()};
    if (sizes_.ring) {
      ring(whole.qkv, whole.out);
    } else {
      Emit(AttentionStep{
          .qkv = whole.qkv, .out = whole.out, .statistics = statistics, .weights = whole.weights, .scores = scores});
    }
    ToTokens(whole.out, out, false);
    return whole;
  }
  if (sizes_.ring) {
    ring(qkv, out);
    return {};
  }
  const ContextBuffers gathered{.kv = sizes_.context > 1 ? GatherKeys(qkv) : kNoId, .weights = Scores()};
  Emit(AttentionStep{.qkv = qkv,
                     .out = out,
                     .statistics = statistics,
                     .kv = gathered.kv,
                     .weights = gathered.weights,
                     .scores = scores});
  return gathered;
}

BufferId Lowering::GatherKeys(BufferId qkv) {
  const BufferId kv = NewBuffer(sizes_.dtype, {sizes_.context * sizes_.tokens, 2 * sizes_.kv_heads * sizes_.head_size});
  Emit(CopyKeysStep{.qkv = qkv, .kv = kv});
  Emit(CollectiveStep{.kind = CollectiveKind::kAllGather, .group = ProgramGroup::kContext, .from = kv, .to = kv});
  return kv;
}

BufferId Lowering::ToHeads(BufferId from, bool packed) {
  const Shape shape{sizes_.head_ranks * sizes_.tokens, (packed ? sizes_.qkv : sizes_.attention) / sizes_.head_ranks};
  const BufferId to = NewBuffer(sizes_.dtype, shape);
  const BufferId arrived = NewBuffer(sizes_.dtype, shape);
  Emit(CopyHeadsStep{.from = from, .to = to, .packed = packed});
  SwapHeads(to, arrived);
  Emit(CopyHeadsStep{.order = HeadOrder::kSequences, .from = arrived, .to = to, .packed = packed});
  return to;
}

void Lowering::ToTokens(BufferId from, BufferId to, bool packed) {
  const Shape shape = program_.buffers[static_cast<std::size_t>(from)].shape;
  const BufferId arrived = NewBuffer(sizes_.dtype, shape);
  Emit(CopyHeadsStep{.order = HeadOrder::kSequences, .from = from, .to = to, .back = true, .packed = packed});
  SwapHeads(to, arrived);
  Emit(CopyHeadsStep{.from = arrived, .to = to, .back = true, .packed = packed});
}

int Lowering::FusedAdd(int i, int end) const {
  const BlockOperation& linear = Operation(i);
  if (sizes_.tensor > 1 || sizes_.dropout || HasAdapter(linear) || linear.bias != kNoId || i + 2 >= end ||
      !Follows(i + 1, BlockOp::kLeave, linear.output) || !Follows(i + 2, BlockOp::kAdd, Operation(i + 1).output) ||
      block_.MakerOf(Operation(i + 2).residual) > i) {
    return kNoId;
  }
  return i + 2;
}

void Lowering::ForwardLinear(Pass& pass, int i, int end) {
  const BlockOperation& linear = Operation(i);
  const auto value = [&](int number) -> BufferId& { return pass.value[static_cast<std::size_t>(number)]; };
  if (IsGrouped(linear)) {
    GroupedProductStep grouped = GroupedProductOf(linear, GroupedProduct::kForward, pass.choice);
    grouped.a = value(linear.input);
    grouped.c = value(linear.output) = ForValue(linear.output);
    return Emit(grouped);
  }
  ProductStep product{.a = value(linear.input),
                      .weight = linear.weight,
                      .bias = linear.bias,
                      .linear = LinearOf(linear),
                      .rows = Rows(linear.output),
                      .columns = Columns(linear.output),
                      .depth = Columns(linear.input)};
  if (InFloat8(linear)) {
    product.b = QuantizedWeight(linear.weight, {product.columns, product.depth}, false, product.scale_b);
    Float8Copy& copy = pass.copy[static_cast<std::size_t>(i)];
    // A late transpose is made of values that backward has anyway, or gathers or makes again.
    const bool late = remake_late_ || (sizes_.sequence_parallel && Maker(linear.input, BlockOp::kEnter) != kNoId);
    product.a = Quantized(product.a, kForwardFloat8, late, copy);
    product.scale_a = copy.scale;
  }
  const bool whole = IsWhole(linear);
  const BufferId out = value(linear.output) = whole ? ForExactValue(linear.output) : ForValue(linear.output);
  product.c = out;
  product.copied = whole && sizes_.tensor > 1;
  // What an adapter adds comes before the activation function.
  if (sizes_.fused_activation && !HasAdapter(linear) && Follows(i + 1, BlockOp::kActivation, linear.output)) {
    const int active = Operation(i + 1).output;
    product.c = value(active) = ForValue(active);
    product.epilogue = Epilogue::kGelu;
    product.auxiliary = out;
  }
  if (const int add = FusedAdd(i, end); add != kNoId) {
    const BlockOperation& sum = Operation(add);
    product.c = add + 1 == Count() ? kModuleOutput : out;
    product.bias = sum.bias;
    product.epilogue = Epilogue::kResidual;
    product.auxiliary = value(sum.residual);
    value(linear.output) = value(sum.input) = value(sum.output) = product.c;
  }
  Emit(product);
  if (HasAdapter(linear)) {
    const BufferId narrow = pass.narrow[static_cast<std::size_t>(i)] = EmitNarrow(linear, value(linear.input));
    Emit(ProductStep{.a = narrow,
                     .c = out,
                     .weight = linear.adapter_b,
                     .linear = product.linear,
                     .added = true,
                     .rows = product.rows,
                     .columns = product.columns,
                     .depth = block_.adapter_rank});
  }
}

BufferId Lowering::EmitNarrow(const BlockOperation& linear, BufferId input) {
  const BufferId narrow = NewBuffer(sizes_.dtype, {Rows(linear.output), block_.adapter_rank});
  Emit(ProductStep{.a = input,
                   .c = narrow,
                   .weight = linear.adapter_a,
                   .linear = LinearOf(linear),
                   .rows = Rows(linear.output),
                   .columns = block_.adapter_rank,
                   .depth = Columns(linear.input)});
  ScaleNarrow(narrow);
  return narrow;
}

void Lowering::ForwardAdd(Pass& pass, int i, int end) {
  const BlockOperation& add = Operation(i);
  const auto value = [&](int number) -> BufferId& { return pass.value[static_cast<std::size_t>(number)]; };
  const bool last = i + 1 == Count();
  value(add.output) = last ? kModuleOutput : ForValue(add.output);
  const SumStep sum{.x = value(add.residual),
                    .branch = value(add.input),
                    .sum = value(add.output),
                    .branch_bias = add.bias,
                    .site = add.site};
  if (i + 1 >= end || !Follows(i + 1, BlockOp::kNorm, add.output)) {
    return Emit(sum);
  }
  const BlockOperation& norm = Operation(i + 1);
  NormStep step{.x = sum.x,
                .branch = sum.branch,
                .sum = sum.sum,
                .gain = norm.weight,
                .bias = norm.bias,
                .branch_bias = sum.branch_bias,
                .site = sum.site};
  step.normed = value(norm.output) = ForValue(norm.output);
  step.statistics = pass.statistics[static_cast<std::size_t>(i) + 1] = NormStatistics(norm.input);
  Emit(step);
}

BufferId Lowering::Quantized(BufferId from, DType dtype, bool late, Float8Copy& copy) {
  const Shape shape = program_.buffers[static_cast<std::size_t>(from)].shape;
  const BufferId rows = NewBuffer(dtype, shape);
  copy = {.columns = late ? kNoId : NewBuffer(dtype, {shape[1], shape[0]}), .scale = NewBuffer(kStatisticsFloat, {1})};
  Emit(QuantizeStep{.from = from, .rows = rows, .columns = copy.columns, .scale = copy.scale});
  return rows;
}

const Lowering::WeightCopy& Lowering::KeptWeight(int weight, const Shape& shape) {
  for (const WeightCopy& copy : weight_copies_) {
    if (copy.weight == weight) {
      return copy;
    }
  }
  const auto kept = [&](DType dtype, const Shape& extents) {
    const BufferId buffer = NewBuffer(dtype, extents);
    program_.buffers.back().area = Area::kWeights;
    return buffer;
  };
  const WeightCopy copy{
      .weight = weight,
      .rows = kept(kForwardFloat8, shape),
      .transpose = {.columns = kept(kForwardFloat8, {shape[1], shape[0]}), .scale = kept(kStatisticsFloat, {1})}};
  Emit(QuantizeStep{.weight = weight,
                    .rows = copy.rows,
                    .columns = copy.transpose.columns,
                    .scale = copy.transpose.scale,
                    .once = true});
  return weight_copies_.emplace_back(copy);
}

BufferId Lowering::QuantizedWeight(int weight, const Shape& shape, bool transposed, BufferId& scale) {
  if (sizes_.float8_weights) {
    const WeightCopy& copy = KeptWeight(weight, shape);
    scale = copy.transpose.scale;
    return transposed ? copy.transpose.columns : copy.rows;
  }
  const BufferId copy = NewBuffer(kForwardFloat8, transposed ? Shape{shape[1], shape[0]} : shape);
  scale = NewBuffer(kStatisticsFloat, {1});
  Emit(QuantizeStep{
      .weight = weight, .rows = transposed ? kNoId : copy, .columns = transposed ? copy : kNoId, .scale = scale});
  return copy;
}

ModuleProgram LowerBlock(const BlockDescription& block, const LocalSizes& sizes, ProgramPurpose purpose) {
  return Lowering(block, sizes, purpose).Lower();
}

}  // namespace trireme
