// The state of lowering a block: LowerBlock's parts share it (block_forward.cc, block_backward.cc, block_experts.cc).
// Forward goes through the operations in order, backward from the last to the first. Three fusions are made on the way:
// a sum with the norm that reads it, a product with the GELU that reads it, and a product with the residual sum that
// reads it; what fp8 copies need is fused at the end.
#pragma once

#include <algorithm>
#include <vector>

#include "lowering/float8_fusion.h"
#include "lowering/module_program.h"
#include "lowering/ring_plan.h"

namespace trireme {

inline constexpr DType kStatisticsFloat = DType::kFloat32;
inline constexpr DType kForwardFloat8 = DType::kFloat8E4M3;
inline constexpr DType kGradientFloat8 = DType::kFloat8E5M2;

// The fp8 copy of an operand. `columns` is none where the weight part makes the transpose itself ("late").
struct Float8Copy {
  BufferId columns = kNoId;
  BufferId scale = kNoId;
};

class Lowering {
 public:
  Lowering(const BlockDescription& block, const LocalSizes& sizes, ProgramPurpose purpose)
      : block_(block),
        sizes_(sizes),
        purpose_(purpose),
        in_parts_(sizes.split_backward && !sizes.recompute_block),
        remake_late_(sizes.recompute_norms) {}

  ModuleProgram Lower() {
    program_.in_parts = in_parts_;
    const Shape border{sizes_.outside, sizes_.hidden};
    for (int i = 0; i < 4; ++i) {
      NewBuffer(sizes_.dtype, border);
    }
    Pass pass = Forward(program_.forward, Count(), false);
    if (purpose_ == ProgramPurpose::kInference) {
      return Finished();
    }
    out_ = &program_.backward;
    if (sizes_.recompute_block) {
      pass = Forward(program_.backward, RecomputedEnd(), true);
    }
    Backward(pass);
    return Finished();
  }

 private:
  ModuleProgram Finished() {
    if (sizes_.float8) {
      FuseFloat8Copies(program_);
    }
    return std::move(program_);
  }

  // What attention reads and writes itself: under context parallelism, and in plain attention.
  struct ContextBuffers {
    BufferId kv = kNoId;   // of all ranks
    BufferId qkv = kNoId;  // Ulysses: of all tokens and this rank's heads
    BufferId out = kNoId;  // likewise
    BufferId weights = kNoId;
  };
  // Buffers of a kRoute: see ops/experts.h.
  struct Choice {
    BufferId logits = kNoId;
    BufferId chosen = kNoId;
    BufferId weights = kNoId;
    BufferId order = kNoId;
    BufferId positions = kNoId;
    BufferId offsets = kNoId;
  };
  // What a run through forward made, by number of a value or an operation.
  struct Pass {
    std::vector<BufferId> value;
    std::vector<BufferId> statistics;     // of norms and attention
    std::vector<Float8Copy> copy;         // of the inputs of linear layers
    std::vector<ContextBuffers> context;  // of attention
    std::vector<BufferId> narrow;         // of linear layers with an adapter: scale * input * A^T
    Choice choice;                        // a block has at most one router
  };
  // Gradients of a kHeadNorm's gains.
  struct GainGradients {
    BufferId query = kNoId;
    BufferId key = kNoId;
  };
  // Both fp8 copies of a weight.
  struct WeightCopy {
    int weight = kNoId;
    BufferId rows = kNoId;
    Float8Copy transpose;
  };
  // Work of the weight part that waits for the end of its branch.
  struct WeightWork {
    int operation = kNoId;
    BufferId gradient = kNoId;  // of the operation's output
    Float8Copy copy;            // of that gradient
    BufferId narrow = kNoId;    // the gradient of `narrow` of a layer with an adapter
  };

  int Count() const { return static_cast<int>(block_.operations.size()); }
  const BlockOperation& Operation(int i) const { return block_.operations[static_cast<std::size_t>(i)]; }
  // Where a second forward may end: before the last product, unless an operation follows whose backward reads its
  // output.
  int RecomputedEnd() const {
    int value = Operation(Count() - 1).input;
    if (const int scale = Maker(value, BlockOp::kScale); scale != kNoId) {
      value = Operation(scale).input;
    }
    return Maker(value, BlockOp::kLeave) == kNoId ? Count() - 1 : LastLinear();
  }
  int LastLinear() const {
    int last = Count();
    while (Operation(--last).op != BlockOp::kLinear) {
    }
    return last;
  }
  BlockLinear LinearOf(const BlockOperation& linear) const {
    const auto width = [&](int value) { return block_.values[static_cast<std::size_t>(value)].width; };
    return width(linear.output) == BlockWidth::kQkv             ? BlockLinear::kQkv
           : width(linear.input) == BlockWidth::kHeads          ? BlockLinear::kAttentionOut
           : width(linear.output) == BlockWidth::kFeedForwardIn ? BlockLinear::kFfnIn
           : width(linear.output) == BlockWidth::kScores        ? BlockLinear::kRouter
           : width(linear.output) == BlockWidth::kGate          ? BlockLinear::kGate
           : width(linear.output) == BlockWidth::kExpertIn      ? BlockLinear::kExpertIn
           : width(linear.input) == BlockWidth::kExpert         ? BlockLinear::kExpertOut
                                                                : BlockLinear::kFfnOut;
  }
  // Whether every tensor rank has the matrix whole and makes the same output, in fp32.
  bool IsWhole(const BlockOperation& linear) const {
    const BlockLinear which = LinearOf(linear);
    return which == BlockLinear::kRouter || which == BlockLinear::kGate;
  }
  // Whether each expert has a matrix.
  static bool IsGrouped(const BlockOperation& linear) { return linear.choice != kNoId; }
  // Whether the products of a linear layer are made in fp8.
  bool InFloat8(const BlockOperation& linear) const {
    return sizes_.float8 && Holds(sizes_.float8_linears, LinearOf(linear));
  }
  static bool HasAdapter(const BlockOperation& operation) { return operation.adapter_a != kNoId; }
  // The operation that makes `value`, if it is of this kind; kNoId otherwise.
  int Maker(int value, BlockOp op) const {
    const int maker = block_.MakerOf(value);
    return maker != kNoId && Operation(maker).op == op ? maker : kNoId;
  }
  // The first reader of the block's input is the last one that backward comes to.
  bool IsFirstReader(int i) const {
    bool first = Operation(i).input == 0;
    for (int earlier = 0; earlier < i; ++earlier) {
      first = first && Operation(earlier).input != 0 && Operation(earlier).residual != 0;
    }
    return first;
  }
  bool EntersBranch(int value) const {
    return std::any_of(block_.operations.begin(), block_.operations.end(), [&](const BlockOperation& operation) {
      return operation.op == BlockOp::kEnter && operation.input == value;
    });
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
      case BlockWidth::kScores:
        return sizes_.experts;
      case BlockWidth::kChoice:
        return sizes_.chosen;
      case BlockWidth::kGate:
        return 1;
      case BlockWidth::kExpertIn:
        return 2 * sizes_.expert_ffn;
      case BlockWidth::kExpert:
        return sizes_.expert_ffn;
    }
    return 0;
  }
  std::int64_t Rows(int value) const {
    switch (block_.values[static_cast<std::size_t>(value)].region) {
      case BlockRegion::kOutside:
        return sizes_.outside;
      case BlockRegion::kTensor:
        return sizes_.tokens;
      case BlockRegion::kExperts:
        return sizes_.rows();
    }
    return 0;
  }
  BufferId NewBuffer(DType dtype, const Shape& shape) {
    program_.buffers.push_back({.dtype = dtype, .shape = shape});
    return static_cast<BufferId>(program_.buffers.size()) - 1;
  }
  // A buffer for a value or its gradient.
  BufferId ForValue(int value) { return NewBuffer(sizes_.dtype, {Rows(value), Columns(value)}); }
  // What scores and their weights are made in.
  BufferId ForExactValue(int value) { return NewBuffer(kStatisticsFloat, {Rows(value), Columns(value)}); }
  Shape HeadNormSums(const BlockOperation& norm) const {
    return {sizes_.tokens, norm.together ? 2 : sizes_.heads + sizes_.kv_heads};
  }
  HeadNormStep HeadNormOf(const BlockOperation& norm, BufferId x, BufferId out, BufferId sums) const {
    return {.x = x,
            .out = out,
            .sums = sums,
            .query_gain = norm.weight,
            .key_gain = norm.key_gain,
            .together = norm.together};
  }
  // Heads that are normed together lie on all tensor ranks.
  void ExchangeOfHeads(const BlockOperation& norm, BufferId sums) {
    if (norm.together && sizes_.tensor > 1) {
      Emit(CollectiveStep{.from = sums, .to = sums});
    }
  }
  BufferId NormStatistics(int value) { return NewBuffer(kStatisticsFloat, {2, Rows(value)}); }

  void Emit(const StepWork& work) { out_->push_back({work, recomputed_, weight_part_}); }

  // Forward, up to operation `end`.
  Pass Forward(std::vector<ProgramStep>& steps, int end, bool recomputed);
  void ForwardLinear(Pass& pass, int i, int end);
  // The sum that the product of linear layer i stores at once: the one that adds its output, and nothing else happens
  // to that on its way, to the residual stream. kNoId: none.
  int FusedAdd(int i, int end) const;
  // scale * input * A^T of a layer with an adapter.
  BufferId EmitNarrow(const BlockOperation& linear, BufferId input);
  void ScaleNarrow(BufferId narrow) {
    if (block_.adapter_scale != 1) {
      Emit(ScaleStep{.x = narrow, .factor = static_cast<float>(block_.adapter_scale)});
    }
  }
  void ForwardAdd(Pass& pass, int i, int end);
  // Blocks with experts, in block_experts.cc.
  void ForwardRoute(Pass& pass, const BlockOperation& route);
  void EmitGather(BufferId from, BufferId to, const Choice& choice) {
    Emit(GatherRows<TensorId>{.from = {from}, .order = {choice.order}, .to = {to}});
  }
  void EmitWeightedActivation(BufferId from, BufferId to, const Choice& choice) {
    Emit(
        WeightedActivation<TensorId>{.from = {from}, .weights = {choice.weights}, .order = {choice.order}, .to = {to}});
  }
  void ForwardCombine(Pass& pass, const BlockOperation& combine);
  GroupedProductStep GroupedProductOf(const BlockOperation& linear, GroupedProduct product, const Choice& choice) const;
  // Attention from `qkv` to `out`, both of this rank's tokens; fills `statistics`.
  ContextBuffers EmitAttention(BufferId qkv, BufferId out, BufferId& statistics);
  // One number for each query and key of plain attention; none where attention is fused.
  BufferId Scores() {
    return sizes_.plain_attention ? NewBuffer(sizes_.dtype, {sizes_.batch, sizes_.heads, sizes_.sequence, sizes_.keys})
                                  : kNoId;
  }
  BufferId GatherKeys(BufferId qkv);
  BufferId RingScratch(bool backward) {
    return NewBuffer(DType::kUInt8, {RingPlan(sizes_.OfAttention(), backward).bytes});
  }
  // The result has all tokens and some heads, or is `to`, which has this rank's tokens and all heads.
  BufferId ToHeads(BufferId from, bool packed);
  void ToTokens(BufferId from, BufferId to, bool packed);
  void SwapHeads(BufferId from, BufferId to) {
    Emit(CollectiveStep{.kind = CollectiveKind::kAllToAll, .group = ProgramGroup::kHeads, .from = from, .to = to});
  }

  // Backward.
  void Backward(const Pass& pass);
  void BackwardEnter(int i);
  void BackwardLeave(const BlockOperation& leave);
  void BackwardAdd(const BlockOperation& add);
  void BackwardScale(const BlockOperation& scale);
  void BackwardLinear(int i);
  void BackwardHeadNorm(int i);
  void BackwardAttention(const BlockOperation& attention);
  void BackwardUlysses(const BlockOperation& attention, AttentionBackwardStep step);
  void BackwardRing(const AttentionBackwardStep& step);
  void BackwardNorm(int i);
  // Blocks with experts, in block_experts.cc.
  void BackwardRoute(const BlockOperation& route);
  void BackwardDispatch(const BlockOperation& dispatch);
  void BackwardGrouped(int i);
  void BackwardWeighted(const BlockOperation& activation);
  void BackwardCombine(const BlockOperation& combine);
  // Emits the weight work that waits.
  void FlushWeights();
  void LinearWeights(const WeightWork& work);
  void AdapterWeights(const WeightWork& work);
  void AddNormGradients();
  // The buffer of a value that backward reads: as forward left it, or made again.
  BufferId Recomputed(int value);
  // The fp8 transpose of an operand of a weight's gradient, made now where it is late.
  Float8Copy Transposed(const Float8Copy& copy, BufferId values, DType dtype);
  // Copies of an operand before its product: rows for that product, columns for the weight's gradient.
  BufferId Quantized(BufferId from, DType dtype, bool late, Float8Copy& copy);
  BufferId QuantizedWeight(int weight, const Shape& shape, bool transposed, BufferId& scale);
  // The copies of a weight that serve a whole step; the first call emits their making.
  const WeightCopy& KeptWeight(int weight, const Shape& shape);

  BufferId& Gradient(int value) { return gradient_[static_cast<std::size_t>(value)]; }

  const BlockDescription& block_;
  const LocalSizes& sizes_;
  ProgramPurpose purpose_;
  bool in_parts_;
  bool remake_late_;
  ModuleProgram program_;
  std::vector<ProgramStep>* out_ = nullptr;
  bool recomputed_ = false;
  bool weight_part_ = false;
  std::vector<WeightCopy> weight_copies_;
  BufferId chosen_ = kNoId;  // which experts the first forward chose: a second one takes the same
  // State of the backward pass:
  Pass kept_;
  std::vector<BufferId> recomputed_values_;  // by value; kNoId: not made again so far
  std::vector<BufferId> gradient_;           // by value
  std::vector<WeightWork> waiting_;
  BufferId norm_gradients_ = kNoId;
  std::vector<GainGradients> gain_gradients_;  // by operation
};

}  // namespace trireme
