// The rules of forward and backward: which steps each operation of a block becomes. Forward goes through the operations
// in order, backward from the last to the first. Two fusions are made on the way: a sum with the norm that reads it,
// and a product with the GELU that reads it.
#include "cost/block_program.h"

namespace trireme {
namespace {

constexpr DType kStatisticsFloat = DType::kFloat32;
constexpr DType kForwardFloat8 = DType::kFloat8E4M3;
constexpr DType kGradientFloat8 = DType::kFloat8E5M2;

// The fp8 copy of an operand. `columns` is none where the weight part makes the transpose itself ("late").
struct Float8Copy {
  BufferId columns = kNoId;
  BufferId scale = kNoId;
};

class Lowering {
 public:
  Lowering(const BlockDescription& block, const LocalSizes& sizes, BlockPurpose purpose)
      : block_(block),
        sizes_(sizes),
        purpose_(purpose),
        in_parts_(sizes.split_backward && !sizes.recompute_block),
        remake_late_(sizes.recompute_norms) {}

  BlockProgram Lower() {
    program_.in_parts = in_parts_;
    const Shape border{sizes_.outside, sizes_.hidden};
    for (int i = 0; i < 4; ++i) {
      NewBuffer(sizes_.dtype, border);
    }
    Pass pass = Forward(program_.forward, Count(), false);
    if (purpose_ == BlockPurpose::kInference) {
      return std::move(program_);
    }
    out_ = &program_.backward;
    if (sizes_.recompute_block) {
      // All but the last product, whose output backward does not read.
      pass = Forward(program_.backward, LastLinear(), true);
    }
    Backward(pass);
    return std::move(program_);
  }

 private:
  // What a run through forward made, by number of a value or an operation.
  struct Pass {
    std::vector<BufferId> value;
    std::vector<BufferId> statistics;  // of norms and attention
    std::vector<Float8Copy> copy;      // of the inputs of linear layers
  };
  // Work of the weight part that waits for the end of its branch.
  struct WeightWork {
    int operation = kNoId;
    BufferId gradient = kNoId;  // of the operation's output
    Float8Copy copy;            // of that gradient
  };

  int Count() const { return static_cast<int>(block_.operations.size()); }
  const BlockOperation& Operation(int i) const { return block_.operations[static_cast<std::size_t>(i)]; }
  int LastLinear() const {
    int last = Count();
    while (Operation(--last).op != BlockOp::kLinear) {
    }
    return last;
  }
  // The operation that makes `value`, if it is of this kind; kNoId otherwise.
  int Maker(int value, BlockOp op) const {
    const int maker = block_.MakerOf(value);
    return maker != kNoId && Operation(maker).op == op ? maker : kNoId;
  }
  // Whether operation i is `op` and reads `value`: what a fusion looks for.
  bool Follows(int i, BlockOp op, int value) const {
    return i < Count() && Operation(i).op == op && Operation(i).input == value;
  }

  std::int64_t Columns(int value) const {
    switch (block_.values[static_cast<std::size_t>(value)].width) {
      case BlockWidth::kHidden:
        return sizes_.hidden;
      case BlockWidth::kQkv:
        return sizes_.qkv;
      case BlockWidth::kHeads:
        return sizes_.attention;
      case BlockWidth::kFeedForwardIn:
        return sizes_.ffn_in;
      case BlockWidth::kFeedForward:
        return sizes_.ffn;
    }
    return 0;
  }
  std::int64_t Rows(int value) const {
    return block_.values[static_cast<std::size_t>(value)].inside ? sizes_.tokens : sizes_.outside;
  }
  BufferId NewBuffer(DType dtype, const Shape& shape) {
    program_.buffers.push_back({.dtype = dtype, .shape = shape});
    return static_cast<BufferId>(program_.buffers.size()) - 1;
  }
  // A buffer for a value or its gradient.
  BufferId ForValue(int value) { return NewBuffer(sizes_.dtype, {Rows(value), Columns(value)}); }
  BufferId NormStatistics(int value) { return NewBuffer(kStatisticsFloat, {2, Rows(value)}); }

  void Emit(const BlockWork& work) { out_->push_back({work, recomputed_, weight_part_}); }

  // Forward, up to operation `end`.
  Pass Forward(std::vector<BlockStep>& steps, int end, bool recomputed);
  void ForwardLinear(Pass& pass, int i);
  void ForwardAdd(Pass& pass, int i, int end);

  // Backward.
  void Backward(const Pass& pass);
  void BackwardAdd(const BlockOperation& add);
  void BackwardLinear(int i);
  void BackwardAttention(const BlockOperation& attention);
  void BackwardNorm(int i);
  // Emits the weight work that waits.
  void FlushWeights();
  void LinearWeights(const WeightWork& work);
  void AddNormGradients();
  // The buffer of a value that backward reads: as forward left it, or made again.
  BufferId Remade(int value);
  // The fp8 transpose of an operand of a weight's gradient, made now where it is late.
  Float8Copy Transposed(const Float8Copy& copy, BufferId values, DType dtype);
  // Copies of an operand before its product: rows for that product, columns for the weight's gradient.
  BufferId Quantized(BufferId from, DType dtype, bool late, Float8Copy& copy);
  BufferId QuantizedWeight(int weight, const Shape& shape, bool transposed, BufferId& scale);

  BufferId& Gradient(int value) { return gradient_[static_cast<std::size_t>(value)]; }

  const BlockDescription& block_;
  const LocalSizes& sizes_;
  BlockPurpose purpose_;
  bool in_parts_;
  bool remake_late_;
  BlockProgram program_;
  std::vector<BlockStep>* out_ = nullptr;
  bool recomputed_ = false;
  bool weight_part_ = false;
  // Of backward:
  Pass kept_;
  std::vector<BufferId> remade_;    // by value; kNoId: not made again so far
  std::vector<BufferId> gradient_;  // by value
  std::vector<WeightWork> waiting_;
  BufferId norm_gradients_ = kNoId;
};

Lowering::Pass Lowering::Forward(std::vector<BlockStep>& steps, int end, bool recomputed) {
  out_ = &steps;
  recomputed_ = recomputed;
  Pass pass{std::vector<BufferId>(block_.values.size(), kNoId), std::vector<BufferId>(block_.operations.size(), kNoId),
            std::vector<Float8Copy>(block_.operations.size())};
  pass.value[0] = kBlockInput;
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
          Emit(EnterStep{.from = from, .to = to});
        }
        break;
      case BlockOp::kLinear:
        ForwardLinear(pass, i);
        break;
      case BlockOp::kRotary:
        to = from;
        Emit(RotaryStep{.qkv = from});
        break;
      case BlockOp::kAttention:
        to = ForValue(operation.output);
        statistics = NewBuffer(kStatisticsFloat, {sizes_.batch, sizes_.heads, sizes_.sequence});
        Emit(AttentionStep{.qkv = from, .out = to, .statistics = statistics});
        break;
      case BlockOp::kActivation:
        to = ForValue(operation.output);
        Emit(ActivationStep{.from = from, .to = to});
        break;
      case BlockOp::kLeave:
        to = sizes_.sequence_parallel ? ForValue(operation.output) : from;
        if (sizes_.tensor > 1) {
          Emit(LeaveStep{.from = from, .to = to});
        }
        break;
      case BlockOp::kAdd:
        ForwardAdd(pass, i, end);
        break;
    }
  }
  recomputed_ = false;
  return pass;
}

void Lowering::ForwardLinear(Pass& pass, int i) {
  const BlockOperation& linear = Operation(i);
  const auto value = [&](int number) -> BufferId& { return pass.value[static_cast<std::size_t>(number)]; };
  ProductStep product{.a = value(linear.input),
                      .weight = linear.weight,
                      .bias = linear.bias,
                      .rows = Rows(linear.output),
                      .columns = Columns(linear.output),
                      .depth = Columns(linear.input)};
  if (sizes_.float8) {
    product.b = QuantizedWeight(linear.weight, {product.columns, product.depth}, false, product.scale_b);
    Float8Copy& copy = pass.copy[static_cast<std::size_t>(i)];
    // A late transpose is made of values that backward has anyway, or gathers or makes again.
    const bool late = remake_late_ || (sizes_.sequence_parallel && Maker(linear.input, BlockOp::kEnter) != kNoId);
    product.a = Quantized(product.a, kForwardFloat8, late, copy);
    product.scale_a = copy.scale;
  }
  const BufferId out = value(linear.output) = ForValue(linear.output);
  product.c = out;
  if (!sizes_.gated && Follows(i + 1, BlockOp::kActivation, linear.output)) {
    const int active = Operation(i + 1).output;
    product.c = value(active) = ForValue(active);
    product.epilogue = ProductEpilogue::kGelu;
    product.auxiliary = out;
  }
  Emit(product);
}

void Lowering::ForwardAdd(Pass& pass, int i, int end) {
  const BlockOperation& add = Operation(i);
  const auto value = [&](int number) -> BufferId& { return pass.value[static_cast<std::size_t>(number)]; };
  const bool last = i + 1 == Count();
  value(add.output) = last ? kBlockOutput : ForValue(add.output);
  NormStep step{.x = value(add.residual),
                .branch = value(add.input),
                .sum = value(add.output),
                .branch_bias = add.bias,
                .site = add.site};
  if (i + 1 < end && Follows(i + 1, BlockOp::kNorm, add.output)) {
    const BlockOperation& norm = Operation(i + 1);
    step.normed = value(norm.output) = ForValue(norm.output);
    step.statistics = pass.statistics[static_cast<std::size_t>(i) + 1] = NormStatistics(norm.input);
    step.gain = norm.weight;
    step.bias = norm.bias;
  }
  Emit(step);
}

BufferId Lowering::Quantized(BufferId from, DType dtype, bool late, Float8Copy& copy) {
  const Shape shape = program_.buffers[static_cast<std::size_t>(from)].shape;
  const BufferId rows = NewBuffer(dtype, shape);
  copy = {.columns = late ? kNoId : NewBuffer(dtype, {shape[1], shape[0]}), .scale = NewBuffer(kStatisticsFloat, {1})};
  Emit(QuantizeStep{.from = from, .rows = rows, .columns = copy.columns, .scale = copy.scale});
  return rows;
}

BufferId Lowering::QuantizedWeight(int weight, const Shape& shape, bool transposed, BufferId& scale) {
  const BufferId copy = NewBuffer(kForwardFloat8, transposed ? Shape{shape[1], shape[0]} : shape);
  scale = NewBuffer(kStatisticsFloat, {1});
  Emit(QuantizeStep{
      .weight = weight, .rows = transposed ? kNoId : copy, .columns = transposed ? copy : kNoId, .scale = scale});
  return copy;
}

void Lowering::Backward(const Pass& pass) {
  kept_ = pass;
  remade_.assign(block_.values.size(), kNoId);
  gradient_.assign(block_.values.size(), kNoId);
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
        Gradient(operation.input) = sizes_.sequence_parallel ? ForValue(operation.input) : gradient;
        if (sizes_.tensor > 1) {
          Emit(LeaveStep{.from = gradient, .to = Gradient(operation.input)});
        }
        break;
      case BlockOp::kLinear:
        BackwardLinear(i);
        break;
      case BlockOp::kRotary:
        Gradient(operation.input) = gradient;
        Emit(RotaryStep{.qkv = gradient, .inverse = true});
        break;
      case BlockOp::kAttention:
        BackwardAttention(operation);
        break;
      case BlockOp::kActivation:
        if (Gradient(operation.input) == kNoId) {  // otherwise the product's epilogue has made it
          Gradient(operation.input) = ForValue(operation.input);
          Emit(ActivationBackwardStep{
              .grad_out = gradient, .from = Remade(operation.input), .grad_from = Gradient(operation.input)});
        }
        break;
      case BlockOp::kLeave:
        // The gradient lies in this rank's rows of a tensor of all tokens already: see BackwardAdd.
        Gradient(operation.input) = gradient;
        if (sizes_.sequence_parallel) {
          Emit(EnterStep{.from = gradient, .to = gradient, .in_place = true});
        }
        break;
      case BlockOp::kAdd:
        BackwardAdd(operation);
        break;
    }
  }
  if (in_parts_) {
    out_ = &program_.backward_weight;
    remade_.assign(block_.values.size(), kNoId);
    FlushWeights();
  }
  weight_part_ = true;
  AddNormGradients();
}

void Lowering::BackwardAdd(const BlockOperation& add) {
  const BufferId gradient = Gradient(add.output);
  Gradient(add.residual) = gradient;
  Gradient(add.input) = gradient;
  // The gradient at hand enters the branch, unless dropout, a gather or a later weight part asks for one of its own.
  if (sizes_.dropout || sizes_.sequence_parallel || in_parts_) {
    const bool gathered = sizes_.sequence_parallel && Maker(add.input, BlockOp::kLeave) != kNoId;
    Gradient(add.input) = NewBuffer(sizes_.dtype, {gathered ? sizes_.tokens : sizes_.outside, sizes_.hidden});
    Emit(DropoutStep{.from = gradient, .to = Gradient(add.input), .site = add.site, .own_rows = gathered});
  }
  if (add.bias != kNoId) {
    waiting_.push_back(
        {.operation = static_cast<int>(&add - block_.operations.data()), .gradient = Gradient(add.input)});
  }
}

void Lowering::BackwardLinear(int i) {
  const BlockOperation& linear = Operation(i);
  WeightWork work{.operation = i, .gradient = Gradient(linear.output)};
  ProductStep product{.kind = ProductKind::kInputGradient,
                      .a = work.gradient,
                      .weight = linear.weight,
                      .rows = Rows(linear.input),
                      .columns = Columns(linear.input),
                      .depth = Columns(linear.output)};
  if (sizes_.float8) {
    product.b = QuantizedWeight(linear.weight, {product.depth, product.columns}, true, product.scale_b);
    product.a = Quantized(product.a, kGradientFloat8, in_parts_, work.copy);
    product.scale_a = work.copy.scale;
  }
  const int activation = Maker(linear.input, BlockOp::kActivation);
  if (!sizes_.gated && activation != kNoId) {
    const int before = Operation(activation).input;
    product.epilogue = ProductEpilogue::kGeluGradient;
    product.auxiliary = Remade(before);
    product.c = Gradient(before) = ForValue(before);
  } else {
    product.c = Gradient(linear.input) = ForValue(linear.input);
  }
  Emit(product);
  waiting_.push_back(work);
}

void Lowering::BackwardAttention(const BlockOperation& attention) {
  const auto i = static_cast<std::size_t>(&attention - block_.operations.data());
  const BufferId out = Remade(attention.output);
  Gradient(attention.input) = ForValue(attention.input);
  Emit(AttentionBackwardStep{.qkv = Remade(attention.input),
                             .out = out,
                             .statistics = kept_.statistics[i],
                             .grad_out = Gradient(attention.output),
                             .grad_qkv = Gradient(attention.input)});
}

void Lowering::BackwardNorm(int i) {
  const BlockOperation& norm = Operation(i);
  NormBackwardStep step{.grad_normed = Gradient(norm.output),
                        .x = Remade(norm.input),
                        .statistics = kept_.statistics[static_cast<std::size_t>(i)],
                        .grad_residual = Gradient(norm.input),
                        .gradients = norm_gradients_,
                        .gain = norm.weight,
                        .bias = norm.bias};
  for (int earlier = 0; earlier < i; ++earlier) {
    step.norm += Operation(earlier).op == BlockOp::kNorm ? 1 : 0;
  }
  // The first reader of the block's input is the last one that backward comes to.
  bool last_reader = norm.input == 0;
  for (int earlier = 0; earlier < i; ++earlier) {
    last_reader = last_reader && Operation(earlier).input != 0 && Operation(earlier).residual != 0;
  }
  step.grad_x = last_reader ? kGradInput : ForValue(norm.input);
  Gradient(norm.input) = step.grad_x;
  if (sizes_.recompute_norms && !in_parts_) {
    // The weight part reads the norm's output at once: backward makes it again in the same pass.
    step.normed = remade_[static_cast<std::size_t>(norm.output)] = step.grad_normed;
  }
  Emit(step);
}

BufferId Lowering::Remade(int value) {
  BufferId& remade = remade_[static_cast<std::size_t>(value)];
  const BufferId kept = kept_.value[static_cast<std::size_t>(value)];
  if (remade != kNoId) {
    return remade;
  }
  const int maker = block_.MakerOf(value);
  if (maker == kNoId) {
    return kept;
  }
  const BlockOperation& operation = Operation(maker);
  if (operation.op == BlockOp::kEnter) {
    const BufferId from = Remade(operation.input);
    remade = sizes_.sequence_parallel ? ForValue(value) : from;
    if (sizes_.sequence_parallel) {
      Emit(EnterStep{.from = from, .to = remade});
    }
  } else if (operation.op == BlockOp::kNorm && sizes_.recompute_norms) {
    remade = ForValue(value);
    Emit(NormStep{.x = Remade(operation.input),
                  .normed = remade,
                  .statistics = kept_.statistics[static_cast<std::size_t>(maker)],
                  .gain = operation.weight,
                  .bias = operation.bias});
  } else if (operation.op == BlockOp::kActivation && sizes_.recompute_activation) {
    const BufferId from = Remade(operation.input);
    remade = sizes_.gated ? ForValue(value) : from;  // over its input, which backward has read by now
    Emit(ActivationStep{.from = from, .to = remade});
  } else if (operation.op == BlockOp::kAttention && sizes_.recompute_attention) {
    remade = ForValue(value);
    BufferId& statistics = kept_.statistics[static_cast<std::size_t>(maker)];
    statistics = NewBuffer(kStatisticsFloat, {sizes_.batch, sizes_.heads, sizes_.sequence});
    recomputed_ = true;
    Emit(AttentionStep{.qkv = Remade(operation.input), .out = remade, .statistics = statistics});
    recomputed_ = false;
  } else {
    return kept;
  }
  return remade;
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
  ProductStep product{.kind = ProductKind::kWeightGradient,
                      .weight = linear.weight,
                      .rows = Columns(linear.output),
                      .columns = Columns(linear.input),
                      .depth = Rows(linear.output)};
  if (sizes_.float8) {
    const Float8Copy gradient = Transposed(work.copy, work.gradient, kGradientFloat8);
    Float8Copy input = kept_.copy[static_cast<std::size_t>(work.operation)];
    if (input.columns == kNoId) {
      input = Transposed(input, Remade(linear.input), kForwardFloat8);
    }
    product.a = gradient.columns;
    product.b = input.columns;
    product.scale_a = gradient.scale;
    product.scale_b = input.scale;
  } else {
    product.a = work.gradient;
    product.b = Remade(linear.input);
  }
  Emit(product);
}

void Lowering::AddNormGradients() {
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
}

}  // namespace

BlockProgram LowerBlock(const BlockDescription& block, const LocalSizes& sizes, BlockPurpose purpose) {
  return Lowering(block, sizes, purpose).Lower();
}

}  // namespace trireme
