#include "lowering/operands.h"

#include <type_traits>

namespace trireme {
namespace {

// A kind of step that has no function here does not compile.
class Operands {
 public:
  // An operation of ops/operations.h.
  template <template <typename> class Op>
  OperandList operator()(const Op<TensorId>& op) const {
    OperandList operands;
    for (const auto& use : Op<TensorId>::Operands()) {
      operands.Add({.owner = use.owner,
                    .access = use.access,
                    .id = static_cast<std::int16_t>((op.*use.member).id),
                    .name = use.name});
    }
    return operands;
  }
  OperandList operator()(const SumStep& s) const {
    return {Read(s.x, "x"), Read(s.branch, "branch"), Write(s.sum, "sum"), Parameter(s.branch_bias, "branch_bias")};
  }
  OperandList operator()(const NormStep& s) const {
    return {Read(s.x, "x"),
            Read(s.branch, "branch"),
            Write(s.sum, "sum"),
            Write(s.normed, "normed"),
            Write(s.statistics, "statistics"),
            Parameter(s.gain, "gamma"),
            Parameter(s.bias, "beta"),
            Parameter(s.branch_bias, "branch_bias"),
            Write(s.largest, "largest")};
  }
  OperandList operator()(const NormBackwardStep& s) const {
    return {Read(s.grad_normed, "grad_normed"),
            Read(s.x, "x"),
            Read(s.statistics, "statistics"),
            Read(s.grad_residual, "grad_residual"),
            Write(s.grad_x, "grad_x"),
            Write(s.normed, "normed"),
            Update(s.gradients, "gradients"),
            Gradient(s.gradients == kNoId ? s.gain : kNoId, "grad_gamma"),
            Gradient(s.gradients == kNoId ? s.bias : kNoId, "grad_beta"),
            Parameter(s.gain, "gamma"),
            Parameter(s.normed == kNoId ? kNoId : s.bias, "beta"),
            Write(s.largest, "largest")};
  }
  OperandList operator()(const CollectiveStep& s) const {
    return s.from == s.to ? OperandList{Update(s.to, "to")} : OperandList{Read(s.from, "from"), Write(s.to, "to")};
  }
  OperandList operator()(const ProductStep& s) const {
    const bool gradient = s.kind == ProductKind::kWeightGradient;
    const bool float8 = s.scale_a != kNoId;  // whose weight is a buffer
    return {Read(s.a, "a"),
            Read(s.b, "b"),
            s.added ? Update(s.c, "c") : Write(s.c, "c"),
            gradient ? Gradient(s.weight, "weight") : Parameter(float8 ? kNoId : s.weight, "weight"),
            Parameter(s.bias, "bias"),
            s.epilogue == Epilogue::kGelu ? Write(s.auxiliary, "auxiliary") : Read(s.auxiliary, "auxiliary"),
            Read(s.scale_a, "scale_a"),
            Read(s.scale_b, "scale_b"),
            Write(s.largest, "largest")};
  }
  OperandList operator()(const GroupedProductStep& s) const {
    const bool gradient = s.product == GroupedProduct::kWeightGradient;
    return {Read(s.a, "a"), Read(s.b, "b"), Write(s.c, "c"),
            gradient ? Gradient(s.weight, "weight") : Parameter(s.weight, "weight"), Read(s.offsets, "offsets")};
  }
  OperandList operator()(const QuantizeStep& s) const {
    return {Read(s.from, "from"),        Parameter(s.weight, "weight"), Write(s.rows, "rows"),
            Write(s.columns, "columns"), Write(s.scale, "scale"),       Read(s.largest, "largest"),
            Gradient(s.bias, "bias"),    Update(s.guess, "guess")};
  }
  OperandList operator()(const HeadNormStep& s) const {
    return {Read(s.x, "x"), Write(s.out, "out"), s.out == kNoId ? Write(s.sums, "sums") : Read(s.sums, "sums"),
            Parameter(s.query_gain, "query_gamma"), Parameter(s.key_gain, "key_gamma")};
  }
  OperandList operator()(const HeadNormBackwardStep& s) const {
    const bool products = s.query_gradient == kNoId;
    return {products ? Read(s.grad, "grad") : Update(s.grad, "grad"),
            Read(s.x, "x"),
            Read(s.sums, "sums"),
            products ? Write(s.products, "products") : Read(s.products, "products"),
            Update(s.query_gradient, "query_gradient"),
            Update(s.key_gradient, "key_gradient"),
            Parameter(s.query_gain, "query_gamma"),
            Parameter(s.key_gain, "key_gamma")};
  }
  OperandList operator()(const CopyKeysStep& s) const {
    return {s.back ? Update(s.qkv, "qkv") : Read(s.qkv, "qkv"), s.back ? Read(s.kv, "kv") : Write(s.kv, "kv")};
  }
  OperandList operator()(const CopyHeadsStep& s) const { return {Read(s.from, "from"), Write(s.to, "to")}; }
  OperandList operator()(const RingAttentionStep& s) const {
    return {Read(s.qkv, "qkv"), Write(s.out, "out"), Write(s.statistics, "statistics"), Write(s.scratch, "scratch")};
  }
  OperandList operator()(const RingAttentionBackwardStep& s) const {
    return {Read(s.qkv, "qkv"),
            Read(s.out, "out"),
            Read(s.statistics, "statistics"),
            Read(s.grad_out, "grad_out"),
            Write(s.grad_qkv, "grad_qkv"),
            Write(s.scratch, "scratch")};
  }
  OperandList operator()(const AttentionStep& s) const {
    return {Read(s.qkv, "qkv"), Write(s.out, "out"),         Write(s.statistics, "statistics"),
            Read(s.kv, "kv"),   Write(s.weights, "weights"), Write(s.scores, "scores")};
  }
  OperandList operator()(const AttentionBackwardStep& s) const {
    return {Read(s.qkv, "qkv"),
            Read(s.out, "out"),
            Read(s.statistics, "statistics"),
            Read(s.grad_out, "grad_out"),
            Write(s.grad_qkv, "grad_qkv"),
            Read(s.kv, "kv"),
            Write(s.grad_kv, "grad_kv"),
            Read(s.weights, "weights"),
            Write(s.scores, "scores")};
  }
  OperandList operator()(const DropoutStep& s) const { return {Read(s.from, "from"), Write(s.to, "to")}; }
  OperandList operator()(const BiasGradientStep& s) const { return {Read(s.rows, "rows"), Gradient(s.bias, "bias")}; }
  OperandList operator()(const ClearStep& s) const { return {Write(s.buffer, "buffer")}; }
  OperandList operator()(const AddGradientStep& s) const {
    return {Read(s.from, "from"), Gradient(s.parameter, "parameter")};
  }
  OperandList operator()(const LookupStep& s) const {
    return {Batch(s.tokens, "tokens"), Parameter(s.table, "table"), Write(s.out, "out")};
  }
  OperandList operator()(const LookupBackwardStep& s) const {
    return {Batch(s.tokens, "tokens"), Read(s.grad_out, "grad_out"), Gradient(s.table, "table")};
  }
  OperandList operator()(const ScaleStep& s) const { return {Update(s.x, "x")}; }
  OperandList operator()(const CopyStep& s) const { return {Read(s.from, "from"), Write(s.to, "to")}; }
  OperandList operator()(const ShowLogitsStep& s) const { return {Read(s.logits, "logits")}; }
  OperandList operator()(const LossStatisticsStep& s) const {
    return {Read(s.logits, "logits"), Batch(BatchTensor::kTargets, "targets"), Write(s.statistics, "statistics")};
  }
  OperandList operator()(const CrossEntropyStep& s) const {
    return {s.gradient ? Update(s.logits, "logits") : Read(s.logits, "logits"), Batch(BatchTensor::kTargets, "targets"),
            Batch(BatchTensor::kWeights, "weights"),
            s.gradient ? Update(s.statistics, "statistics") : Read(s.statistics, "statistics"),
            Write(s.losses, "losses")};
  }
  OperandList operator()(const LossSumStep& s) const {
    return {Read(s.losses, "losses"), Batch(BatchTensor::kWeights, "weights"),
            Batch(BatchTensor::kLossSums, "sums", Access::kWrite)};
  }

 private:
  static Operand Buffer(Access access, BufferId id, const char* name) {
    return {.owner = Owner::kBuffer, .access = access, .id = static_cast<std::int16_t>(id), .name = name};
  }
  static Operand Read(BufferId id, const char* name) { return Buffer(Access::kRead, id, name); }
  static Operand Write(BufferId id, const char* name) { return Buffer(Access::kWrite, id, name); }
  static Operand Update(BufferId id, const char* name) { return Buffer(Access::kUpdate, id, name); }
  static Operand Parameter(int id, const char* name) {
    return {.owner = Owner::kParameter, .access = Access::kRead, .id = static_cast<std::int16_t>(id), .name = name};
  }
  static Operand Batch(BatchTensor tensor, const char* name, Access access = Access::kRead) {
    return {.owner = Owner::kBatch, .access = access, .id = static_cast<std::int16_t>(tensor), .name = name};
  }
  static Operand Gradient(int id, const char* name) {
    return {.owner = Owner::kGradient, .access = Access::kUpdate, .id = static_cast<std::int16_t>(id), .name = name};
  }
};

}  // namespace

std::string_view NameOf(const StepWork& work) {
  return std::visit(
      [](const auto& step) {
        if constexpr (std::is_same_v<decltype(step), const CollectiveStep&>) {
          return Name(step.kind);
        } else {
          return step.kName;
        }
      },
      work);
}

OperandList OperandsOf(const StepWork& work) { return std::visit(Operands{}, work); }

PartUse UseOf(const ModuleProgram& program, const std::vector<ProgramStep>& steps, Owner owner) {
  PartUse use;
  for (const ProgramStep& step : steps) {
    for (const Operand& operand : OperandsOf(step.work)) {
      if (operand.owner == owner) {
        (operand.id == program.tied ? use.tied : use.own) = true;
      }
    }
  }
  return use;
}

}  // namespace trireme
