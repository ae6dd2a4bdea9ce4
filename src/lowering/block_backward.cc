// The rules of backward: which steps each operation of a block becomes, from the last to the first, and which of them
// belong to the weight part.
#include <utility>

#include "lowering/block_lowering.h"

namespace trireme {

void Lowering::Backward(const Pass& pass) {
  kept_ = pass;
  recomputed_values_.assign(block_.values.size(), kNoId);
  gradient_.assign(block_.values.size(), kNoId);
  gain_gradients_.assign(block_.operations.size(), {});
  for (int i = 0; i < Count(); ++i) {
    program_.norms += Operation(i).op == BlockOp::kNorm ? 1 : 0;
  }
  norm_gradients_ = NewBuffer(kStatisticsFloat, {2 * program_.norms, sizes_.hidden});
  Emit(ClearStep{norm_gradients_});
  Gradient(block_.operations.back().output) = kGradOutput;
  for (int i = Count() - 1; i >= 0; --i) {
    const BlockOperation& operation = Operation(i);
    const BufferId gradient = Gradient(operation.output);
    switch (operation.op) {
      case BlockOp::kNorm:
        BackwardNorm(i);
        if (!in_parts_) {
          FlushWeights();
        }
        break;
      case BlockOp::kEnter:
        BackwardEnter(i);
        break;
      case BlockOp::kLinear:
        BackwardLinear(i);
        break;
      case BlockOp::kHeadNorm:
        BackwardHeadNorm(i);
        break;
      case BlockOp::kRotary:
        Gradient(operation.input) = gradient;
        Emit(Rotary<TensorId>{.qkv = {gradient}, .inverse = true});
        break;
      case BlockOp::kScale:
        BackwardScale(operation);
        break;
      case BlockOp::kAttention:
        BackwardAttention(operation);
        break;
      case BlockOp::kActivation:
        if (operation.choice != kNoId) {
          BackwardWeighted(operation);
        } else if (Gradient(operation.input) == kNoId) {  // otherwise the product's epilogue has made it
          Gradient(operation.input) = ForValue(operation.input);
          Emit(ActivationBackward<TensorId>{
              .grad_out = {gradient}, .from = {Recomputed(operation.input)}, .grad_from = {Gradient(operation.input)}});
        }
        break;
      case BlockOp::kLeave:
        BackwardLeave(operation);
        break;
      case BlockOp::kAdd:
        BackwardAdd(operation);
        break;
      case BlockOp::kRoute:
        BackwardRoute(operation);
        break;
      case BlockOp::kDispatch:
        BackwardDispatch(operation);
        break;
      case BlockOp::kCombine:
        BackwardCombine(operation);
        break;
    }
  }
  if (in_parts_) {
    out_ = &program_.backward_weight;
    recomputed_values_.assign(block_.values.size(), kNoId);
  }
  FlushWeights();
  weight_part_ = true;
  AddNormGradients();
}

void Lowering::BackwardEnter(int i) {
  const BlockOperation& enter = Operation(i);
  const BufferId gradient = Gradient(enter.output);
  const BufferId outside = sizes_.sequence_parallel ? ForValue(enter.input) : gradient;
  if (sizes_.tensor > 1) {
    Emit(LeaveRegion(sizes_, gradient, outside));
  }
  const BufferId others = Gradient(enter.input);
  if (others == kNoId) {
    Gradient(enter.input) = outside;
    return;
  }
  // The residual stream itself enters the branch.
  Gradient(enter.input) = IsFirstReader(i) ? kGradInput : ForValue(enter.input);
  Emit(SumStep{.x = others, .branch = outside, .sum = Gradient(enter.input)});
  if (!in_parts_) {
    FlushWeights();
  }
}

void Lowering::BackwardLeave(const BlockOperation& leave) {
  const BufferId gradient = Gradient(leave.output);
  Gradient(leave.input) = gradient;
  if (!sizes_.sequence_parallel) {
    return;
  }
  // Where the branch was added as it left, the gradient lies in this rank's rows of all tokens already: see
  // BackwardAdd.
  const bool in_place = program_.buffers[static_cast<std::size_t>(gradient)].shape[0] == sizes_.tokens;
  Gradient(leave.input) = in_place ? gradient : ForValue(leave.input);
  Emit(EnterRegion(gradient, Gradient(leave.input)));
}

void Lowering::BackwardAdd(const BlockOperation& add) {
  const BufferId gradient = Gradient(add.output);
  if (const BufferId others = Gradient(add.residual); others == kNoId) {
    Gradient(add.residual) = gradient;
  } else {
    Emit(SumStep{.x = others, .branch = gradient, .sum = others});
  }
  Gradient(add.input) = gradient;
  // The gradient at hand enters the branch, unless dropout, a gather or a later weight part asks for one of its own.
  if (sizes_.dropout || sizes_.sequence_parallel || in_parts_) {
    const bool gathered = sizes_.sequence_parallel && Maker(add.input, BlockOp::kLeave) != kNoId;
    Gradient(add.input) = NewBuffer(sizes_.dtype, {gathered ? sizes_.tokens : sizes_.outside, sizes_.hidden});
    Emit(DropoutStep{.from = gradient, .to = Gradient(add.input), .site = add.site, .own_rows = gathered});
  }
  if (add.bias != kNoId && !block_.frozen()) {
    waiting_.push_back(
        {.operation = static_cast<int>(&add - block_.operations.data()), .gradient = Gradient(add.input)});
  }
}

// The gradient is the residual stream's too, unless the sum before has made one of the branch's own.
void Lowering::BackwardScale(const BlockOperation& scale) {
  const BufferId gradient = Gradient(scale.output);
  const bool own = sizes_.dropout || sizes_.sequence_parallel || in_parts_;
  Gradient(scale.input) = own ? gradient : ForValue(scale.input);
  if (!own) {
    Emit(CopyStep{.from = gradient, .to = Gradient(scale.input)});
  }
  Emit(ScaleStep{.x = Gradient(scale.input), .factor = static_cast<float>(scale.factor)});
}

void Lowering::BackwardLinear(int i) {
  const BlockOperation& linear = Operation(i);
  if (IsGrouped(linear)) {
    return BackwardGrouped(i);
  }
  WeightWork work{.operation = i, .gradient = Gradient(linear.output)};
  ProductStep product{.kind = ProductKind::kInputGradient,
                      .a = work.gradient,
                      .weight = linear.weight,
                      .linear = LinearOf(linear),
                      .rows = Rows(linear.input),
                      .columns = Columns(linear.input),
                      .depth = Columns(linear.output)};
  if (InFloat8(linear)) {
    product.b = QuantizedWeight(linear.weight, {product.depth, product.columns}, true, product.scale_b);
    product.a = Quantized(product.a, kGradientFloat8, in_parts_, work.copy);
    product.scale_a = work.copy.scale;
  }
  const int activation = Maker(linear.input, BlockOp::kActivation);
  if (sizes_.fused_activation && activation != kNoId && !HasAdapter(linear)) {
    const int before = Operation(activation).input;
    product.epilogue = Epilogue::kGeluGradient;
    product.auxiliary = Recomputed(before);
    product.c = Gradient(before) = ForValue(before);
  } else if (Gradient(linear.input) != kNoId) {  // other operations read the input, too
    product.c = Gradient(linear.input);
    product.added = true;
  } else {
    product.c = Gradient(linear.input) = ForValue(linear.input);
  }
  Emit(product);
  if (HasAdapter(linear)) {
    work.narrow = NewBuffer(sizes_.dtype, {product.rows, block_.adapter_rank});
    Emit(ProductStep{.kind = ProductKind::kInputGradient,
                     .a = work.gradient,
                     .c = work.narrow,
                     .weight = linear.adapter_b,
                     .linear = product.linear,
                     .rows = product.rows,
                     .columns = block_.adapter_rank,
                     .depth = product.depth});
    ScaleNarrow(work.narrow);
    Emit(ProductStep{.kind = ProductKind::kInputGradient,
                     .a = work.narrow,
                     .c = product.c,
                     .weight = linear.adapter_a,
                     .linear = product.linear,
                     .added = true,
                     .rows = product.rows,
                     .columns = product.columns,
                     .depth = block_.adapter_rank});
  }
  if (HasAdapter(linear) || !block_.frozen()) {
    waiting_.push_back(work);
  }
}

void Lowering::BackwardHeadNorm(int i) {
  const BlockOperation& norm = Operation(i);
  const auto gains = [&](std::int64_t heads) {
    return NewBuffer(kStatisticsFloat, {1, (norm.together ? heads : 1) * sizes_.head_size});
  };
  GainGradients& gradients = gain_gradients_[static_cast<std::size_t>(i)];
  gradients = {.query = gains(sizes_.heads), .key = gains(sizes_.kv_heads)};
  Emit(ClearStep{gradients.query});
  Emit(ClearStep{gradients.key});
  Gradient(norm.input) = Gradient(norm.output);
  HeadNormBackwardStep step{.grad = Gradient(norm.output),
                            .x = Recomputed(norm.input),
                            .sums = kept_.statistics[static_cast<std::size_t>(i)],
                            .products = NewBuffer(kStatisticsFloat, HeadNormSums(norm)),
                            .query_gain = norm.weight,
                            .key_gain = norm.key_gain,
                            .together = norm.together};
  Emit(step);
  ExchangeOfHeads(norm, step.products);
  step.query_gradient = gradients.query;
  step.key_gradient = gradients.key;
  Emit(step);
}

void Lowering::BackwardAttention(const BlockOperation& attention) {
  const auto i = static_cast<std::size_t>(&attention - block_.operations.data());
  const BufferId out = Recomputed(attention.output);
  Gradient(attention.input) = ForValue(attention.input);
  AttentionBackwardStep step{.qkv = Recomputed(attention.input),
                             .out = out,
                             .statistics = kept_.statistics[i],
                             .grad_out = Gradient(attention.output),
                             .grad_qkv = Gradient(attention.input),
                             .weights = kept_.context[i].weights,
                             .scores = Scores()};
  if (sizes_.ulysses) {
    return BackwardUlysses(attention, step);
  }
  if (sizes_.ring) {
    return BackwardRing(step);
  }
  if (sizes_.context == 1) {
    return Emit(step);
  }
  // Keys and values of all ranks are not kept: only a forward within backward has left them.
  const bool gathered = sizes_.recompute_block || sizes_.recompute_attention;
  step.kv = gathered ? kept_.context[i].kv : GatherKeys(step.qkv);
  step.grad_kv = NewBuffer(sizes_.dtype, program_.buffers[static_cast<std::size_t>(step.kv)].shape);
  Emit(step);
  Emit(CollectiveStep{.kind = CollectiveKind::kReduceScatter,
                      .group = ProgramGroup::kContext,
                      .from = step.grad_kv,
                      .to = step.grad_kv});
  Emit(CopyKeysStep{.qkv = step.grad_qkv, .kv = step.grad_kv, .back = true});
}

void Lowering::BackwardRing(const AttentionBackwardStep& step) {
  Emit(RingAttentionBackwardStep{.qkv = step.qkv,
                                 .out = step.out,
                                 .statistics = step.statistics,
                                 .grad_out = step.grad_out,
                                 .grad_qkv = step.grad_qkv,
                                 .scratch = RingScratch(true)});
}

void Lowering::BackwardUlysses(const BlockOperation& attention, AttentionBackwardStep step) {
  const ContextBuffers& whole = kept_.context[static_cast<std::size_t>(&attention - block_.operations.data())];
  // Kept as attention read it, unless its input is made again.
  const bool recomputed = step.qkv != kept_.value[static_cast<std::size_t>(attention.input)];
  const BufferId grad_qkv = step.grad_qkv;
  step.qkv = recomputed && !sizes_.recompute_attention ? ToHeads(step.qkv, true) : whole.qkv;
  step.out = whole.out;
  step.grad_out = ToHeads(step.grad_out, false);
  step.grad_qkv = NewBuffer(sizes_.dtype, program_.buffers[static_cast<std::size_t>(step.qkv)].shape);
  if (sizes_.ring) {
    BackwardRing(step);
  } else {
    Emit(step);
  }
  ToTokens(step.grad_qkv, grad_qkv, true);
}

void Lowering::BackwardNorm(int i) {
  const BlockOperation& norm = Operation(i);
  NormBackwardStep step{.grad_normed = Gradient(norm.output),
                        .x = Recomputed(norm.input),
                        .statistics = kept_.statistics[static_cast<std::size_t>(i)],
                        .grad_residual = Gradient(norm.input),
                        .gradients = norm_gradients_,
                        .gain = norm.weight,
                        .bias = norm.bias};
  for (int earlier = 0; earlier < i; ++earlier) {
    step.norm += Operation(earlier).op == BlockOp::kNorm ? 1 : 0;
  }
  step.grad_x = IsFirstReader(i) ? kGradInput : ForValue(norm.input);
  Gradient(norm.input) = step.grad_x;
  if (sizes_.recompute_norms && !in_parts_ && EntersBranch(norm.output)) {
    // The weight part reads the norm's output at once: backward makes it again in the same pass.
    step.normed = recomputed_values_[static_cast<std::size_t>(norm.output)] = step.grad_normed;
  }
  Emit(step);
}

BufferId Lowering::Recomputed(int value) {
  BufferId& recomputed = recomputed_values_[static_cast<std::size_t>(value)];
  const BufferId kept = kept_.value[static_cast<std::size_t>(value)];
  if (recomputed != kNoId) {
    return recomputed;
  }
  const int maker = block_.MakerOf(value);
  if (maker == kNoId) {
    return kept;
  }
  const BlockOperation& operation = Operation(maker);
  if (operation.op == BlockOp::kEnter) {
    const BufferId from = Recomputed(operation.input);
    recomputed = sizes_.sequence_parallel ? ForValue(value) : from;
    if (sizes_.sequence_parallel) {
      Emit(EnterRegion(from, recomputed));
    }
  } else if (operation.op == BlockOp::kNorm && sizes_.recompute_norms) {
    recomputed = ForValue(value);
    Emit(NormStep{.x = Recomputed(operation.input),
                  .normed = recomputed,
                  .statistics = kept_.statistics[static_cast<std::size_t>(maker)],
                  .gain = operation.weight,
                  .bias = operation.bias});
  } else if (operation.op == BlockOp::kHeadNorm && sizes_.recompute_norms) {
    recomputed = ForValue(value);
    Emit(HeadNormOf(operation, Recomputed(operation.input), recomputed,
                    kept_.statistics[static_cast<std::size_t>(maker)]));
  } else if (operation.op == BlockOp::kRotary && Recomputed(operation.input) != kept) {
    recomputed = Recomputed(operation.input);
    Emit(Rotary<TensorId>{.qkv = {recomputed}});
  } else if (operation.op == BlockOp::kDispatch && sizes_.recompute_norms) {
    const BufferId from = Recomputed(operation.input);
    recomputed = ForValue(value);
    EmitGather(from, recomputed, kept_.choice);
  } else if (operation.op == BlockOp::kActivation && operation.choice != kNoId && sizes_.recompute_activation) {
    recomputed = ForValue(value);
    EmitWeightedActivation(Recomputed(operation.input), recomputed, kept_.choice);
  } else if (operation.op == BlockOp::kActivation && operation.choice == kNoId && sizes_.recompute_activation) {
    const BufferId from = Recomputed(operation.input);
    recomputed = sizes_.gated ? ForValue(value) : from;  // over its input, which backward has read by now
    Emit(ActivationForward<TensorId>{.from = {from}, .to = {recomputed}});
  } else if (operation.op == BlockOp::kAttention && sizes_.recompute_attention) {
    recomputed = ForValue(value);
    const BufferId qkv = Recomputed(operation.input);
    recomputed_ = true;
    kept_.context[static_cast<std::size_t>(maker)] =
        EmitAttention(qkv, recomputed, kept_.statistics[static_cast<std::size_t>(maker)]);
    recomputed_ = false;
  } else {
    return kept;
  }
  return recomputed;
}

Float8Copy Lowering::Transposed(const Float8Copy& copy, BufferId values, DType dtype) {
  if (copy.columns != kNoId) {
    return copy;
  }
  const Shape shape = program_.buffers[static_cast<std::size_t>(values)].shape;
  const Float8Copy late{.columns = NewBuffer(dtype, {shape[1], shape[0]}), .scale = NewBuffer(kStatisticsFloat, {1})};
  Emit(QuantizeStep{.from = values, .columns = late.columns, .scale = late.scale});
  return late;
}

void Lowering::FlushWeights() {
  weight_part_ = true;
  for (const WeightWork& work : waiting_) {
    const BlockOperation& operation = Operation(work.operation);
    if (HasAdapter(operation)) {
      AdapterWeights(work);
    }
    if (block_.frozen()) {
      continue;
    }
    if (operation.op == BlockOp::kLinear) {
      LinearWeights(work);
    }
    if (operation.bias != kNoId) {
      const bool own = operation.op == BlockOp::kAdd && sizes_.sequence_parallel;
      Emit(BiasGradientStep{.rows = work.gradient, .bias = operation.bias, .own_rows = own});
    }
  }
  waiting_.clear();
  weight_part_ = false;
}

void Lowering::LinearWeights(const WeightWork& work) {
  const BlockOperation& linear = Operation(work.operation);
  if (IsGrouped(linear)) {
    const BufferId input = Recomputed(linear.input);
    GroupedProductStep grouped = GroupedProductOf(linear, GroupedProduct::kWeightGradient, kept_.choice);
    grouped.a = work.gradient;
    grouped.b = input;
    return Emit(grouped);
  }
  // Each tensor rank has the gradient that its part of the experts gives. Under sequence parallelism the bucket's
  // reduction adds them up.
  const bool completed = IsWhole(linear) && sizes_.tensor > 1 && !sizes_.sequence_parallel;
  if (completed) {
    Emit(CollectiveStep{.from = work.gradient, .to = work.gradient});
  }
  ProductStep product{.kind = ProductKind::kWeightGradient,
                      .weight = linear.weight,
                      .linear = LinearOf(linear),
                      .copied = completed,
                      .rows = Columns(linear.output),
                      .columns = Columns(linear.input),
                      .depth = Rows(linear.output)};
  if (InFloat8(linear)) {
    const Float8Copy gradient = Transposed(work.copy, work.gradient, kGradientFloat8);
    Float8Copy input = kept_.copy[static_cast<std::size_t>(work.operation)];
    if (input.columns == kNoId) {
      input = Transposed(input, Recomputed(linear.input), kForwardFloat8);
    }
    product.a = gradient.columns;
    product.b = input.columns;
    product.scale_a = gradient.scale;
    product.scale_b = input.scale;
  } else {
    product.a = work.gradient;
    product.b = Recomputed(linear.input);
  }
  Emit(product);
}

void Lowering::AdapterWeights(const WeightWork& work) {
  const BlockOperation& linear = Operation(work.operation);
  const BufferId input = Recomputed(linear.input);
  BufferId narrow = kept_.narrow[static_cast<std::size_t>(work.operation)];
  if (narrow == kNoId) {  // a second forward ends before the last product
    recomputed_ = true;
    narrow = EmitNarrow(linear, input);
    recomputed_ = false;
  }
  // A rank's own outputs give a part of the gradient of `narrow`, its own inputs a part of `narrow` itself: every
  // rank holds the matrix whose gradient follows from that part. Under sequence parallelism the bucket's reduction adds
  // up the gradients.
  const bool cuts_outputs = Maker(linear.input, BlockOp::kEnter) != kNoId;
  const bool copied = sizes_.tensor > 1 && !sizes_.sequence_parallel;
  if (copied) {
    const BufferId part = cuts_outputs ? work.narrow : narrow;
    Emit(CollectiveStep{.from = part, .to = part});
  }
  Emit(ProductStep{.kind = ProductKind::kWeightGradient,
                   .a = work.narrow,
                   .b = input,
                   .weight = linear.adapter_a,
                   .linear = LinearOf(linear),
                   .copied = copied && cuts_outputs,
                   .rows = block_.adapter_rank,
                   .columns = Columns(linear.input),
                   .depth = Rows(linear.output)});
  Emit(ProductStep{.kind = ProductKind::kWeightGradient,
                   .a = work.gradient,
                   .b = narrow,
                   .weight = linear.adapter_b,
                   .linear = LinearOf(linear),
                   .copied = copied && !cuts_outputs,
                   .rows = Columns(linear.output),
                   .columns = block_.adapter_rank,
                   .depth = Rows(linear.output)});
}

void Lowering::AddNormGradients() {
  if (block_.frozen()) {
    return;
  }
  int norm = 0;
  for (const BlockOperation& operation : block_.operations) {
    if (operation.op != BlockOp::kNorm) {
      continue;
    }
    Emit(AddGradientStep{.from = norm_gradients_, .row = 2 * norm, .parameter = operation.weight});
    if (operation.bias != kNoId) {
      Emit(AddGradientStep{.from = norm_gradients_, .row = 2 * norm + 1, .parameter = operation.bias});
    }
    ++norm;
  }
  for (int i = 0; i < Count(); ++i) {
    const BlockOperation& operation = Operation(i);
    if (operation.op != BlockOp::kHeadNorm) {
      continue;
    }
    const GainGradients& gradients = gain_gradients_[static_cast<std::size_t>(i)];
    for (const auto& [from, parameter] :
         {std::pair{gradients.query, operation.weight}, std::pair{gradients.key, operation.key_gain}}) {
      // Every rank has the sum over its own heads. Under sequence parallelism the bucket's reduction adds them up.
      if (!operation.together && sizes_.tensor > 1 && !sizes_.sequence_parallel) {
        Emit(CollectiveStep{.from = from, .to = from});
      }
      Emit(AddGradientStep{.from = from, .parameter = parameter});
    }
  }
}

}  // namespace trireme
