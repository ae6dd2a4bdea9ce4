// What each step of a program costs. Operations and communicators count the same from actual shapes (law 5).
#include "cost/module_cost.h"

#include <algorithm>

#include "lowering/operands.h"
#include "lowering/ring_plan.h"

namespace trireme {

WorkCost& WorkCost::operator+=(const WorkCost& other) {
  flops += other.flops;
  tensor += other.tensor;
  context += other.context;
  bytes_touched += other.bytes_touched;
  return *this;
}

namespace {

class StepCosts {
 public:
  StepCosts(const LocalSizes& sizes, const ModuleProgram& program) : sizes_(sizes), program_(program) {}

  WorkCost Of(const ProgramStep& step) const {
    WorkCost cost;
    if (const auto* product = std::get_if<ProductStep>(&step.work)) {
      cost.flops.matmul = 2 * product->rows * product->columns * product->depth;
      cost.bytes_touched = product->epilogue == Epilogue::kResidual ? Bytes(product->auxiliary) : 0;
    } else if (const auto* grouped = std::get_if<GroupedProductStep>(&step.work)) {
      cost.flops.matmul = 2 * grouped->rows * grouped->outputs * grouped->inputs;
    } else if (std::holds_alternative<AttentionStep>(step.work)) {
      cost.flops.attention = AttentionForward();
    } else if (std::holds_alternative<AttentionBackwardStep>(step.work)) {
      cost.flops.attention = AttentionBackward();
    } else if (std::holds_alternative<RingAttentionStep>(step.work)) {
      cost.flops.attention = AttentionForward();
      cost.context = RingPlan(sizes_.OfAttention(), false).traffic;
    } else if (std::holds_alternative<RingAttentionBackwardStep>(step.work)) {
      cost.flops.attention = AttentionBackward();
      cost.context = RingPlan(sizes_.OfAttention(), true).traffic;
    } else if (const auto* collective = std::get_if<CollectiveStep>(&step.work)) {
      AddTraffic(*collective, step.chunked, collective->group == ProgramGroup::kTensor ? cost.tensor : cost.context);
    } else {
      cost.bytes_touched = TouchedBy(step);
    }
    if (step.recomputed) {
      cost.flops = {.recomputed = cost.flops.matmul + cost.flops.attention};
    }
    return cost;
  }

 private:
  // The causal pairs of attention, as ops/attention.h counts them: forward 4 D per pair and head, backward 10 D.
  // Plain attention counts all pairs, and backward 8 D: it reads the weights that forward left.
  std::int64_t AttentionForward() const { return sizes_.batch * sizes_.HeadPairs() * 4 * sizes_.head_size; }
  std::int64_t AttentionBackward() const {
    return sizes_.plain_attention ? 2 * AttentionForward() : AttentionForward() / 2 * 5;
  }

  // The gathered output, or the unreduced input: the larger of the two.
  void AddTraffic(const CollectiveStep& step, bool chunked, Traffic& traffic) const {
    const std::int64_t bytes = std::max(Bytes(step.from), Bytes(step.to));
    if (!chunked) {
      return traffic.Add(step.kind, bytes);
    }
    for (std::int64_t first = 0; first < program_.rows; first += program_.chunk) {
      traffic.Add(step.kind, bytes / program_.chunk * std::min(program_.chunk, program_.rows - first));
    }
  }

  static bool FillsSums(const StepWork& work) {
    const auto* const norm = std::get_if<HeadNormStep>(&work);
    const auto* const backward = std::get_if<HeadNormBackwardStep>(&work);
    return (norm != nullptr && norm->out == kNoId) || (backward != nullptr && backward->query_gradient == kNoId);
  }

  std::int64_t Bytes(BufferId id) const {
    const Place& buffer = program_.buffers[static_cast<std::size_t>(id)];
    return buffer.shape.count() * SizeOf(buffer.dtype);
  }

  bool IsWide(BufferId id) const {
    const Shape& shape = program_.buffers[static_cast<std::size_t>(id)].shape;
    return shape.rank() == 2 && shape[1] >= sizes_.hidden;
  }

  // In all chunks of rows.
  std::int64_t BytesOfChunks(BufferId id) const {
    const bool of_chunk = program_.buffers[static_cast<std::size_t>(id)].shape[0] == program_.chunk;
    return of_chunk ? Bytes(id) / program_.chunk * program_.rows : Bytes(id);
  }

  // Every buffer of an element-wise step is read or written once; one that is changed in place, twice.
  std::int64_t TouchedBy(const ProgramStep& step) const {
    const StepWork& work = step.work;
    if (std::holds_alternative<ClearStep>(work) || std::holds_alternative<AddGradientStep>(work)) {
      return 0;  // a few rows of the hidden size
    }
    if (const auto* scale = std::get_if<ScaleStep>(&work); scale != nullptr) {
      return IsWide(scale->x) ? 2 * Bytes(scale->x) : 0;  // an adapter has a few columns
    }
    if (FillsSums(work)) {
      return 0;  // one pass with the norm that reads them
    }
    if (const auto* copy = std::get_if<CopyKeysStep>(&work)) {
      return 2 * Bytes(copy->kv) / sizes_.context;  // this rank's part
    }
    if (const auto* dropout = std::get_if<DropoutStep>(&work); dropout != nullptr && dropout->own_rows) {
      return 2 * Bytes(dropout->from);  // of `to` this rank's rows alone
    }
    if (const auto* bias = std::get_if<BiasGradientStep>(&work); bias != nullptr && bias->own_rows) {
      return Bytes(bias->rows) / sizes_.tokens * sizes_.outside;
    }
    std::int64_t bytes = 0;
    for (const Operand& operand : OperandsOf(work)) {
      if (operand.is_buffer()) {
        bytes += step.chunked ? BytesOfChunks(operand.id) : Bytes(operand.id);
      }
    }
    return std::holds_alternative<Rotary<TensorId>>(work) ? 2 * bytes : bytes;
  }

  const LocalSizes& sizes_;
  const ModuleProgram& program_;
};

}  // namespace

WorkCost CostOfWork(const LocalSizes& sizes, const ModuleProgram& program, const ProgramStep& step) {
  return StepCosts(sizes, program).Of(step);
}

namespace {

ModuleCost CostOfProgram(const LocalSizes& sizes, const ModuleProgram& program) {
  const StepCosts costs(sizes, program);
  ModuleCost cost;
  for (const ProgramStep& step : program.forward) {
    cost.forward += costs.Of(step);
  }
  for (const ProgramStep& step : program.evaluation) {
    cost.evaluation += costs.Of(step);
  }
  if (program.evaluation.empty()) {
    cost.evaluation = cost.forward;
  }
  for (const std::vector<ProgramStep>* steps : {&program.backward, &program.backward_weight}) {
    for (const ProgramStep& step : *steps) {
      // A block that is recomputed whole does both parts at once: only scratch holds its second forward.
      const bool weight_part = step.weight_part && !sizes.recompute_block;
      (weight_part ? cost.backward_weight : cost.backward_input) += costs.Of(step);
    }
  }
  return cost;
}

}  // namespace

ModuleCost CostOfBlock(const LocalSizes& sizes, const ModuleProgram& program) { return CostOfProgram(sizes, program); }

ModuleCost CostOfBlock(const LocalSizes& sizes, const ModelConfig& config) {
  return CostOfBlock(sizes, PlanBlock(config, sizes));
}

// Bytes by passes over activations and logits: an estimate that is coarser than the steps.
ModuleCost CostOfEmbedding(const LocalSizes& s, const ModelConfig& config) {
  ModuleCost cost = CostOfProgram(s, PlanEmbedding(config, s));
  const std::int64_t passes = 2 + (config.position == PositionChoice::kLearned ? 2 : 0) +
                              (config.embedding_norm ? 3 : 0) + (s.dropout ? 2 : 0) +
                              (config.ScalesEmbedding() ? 2 : 0);
  cost.forward.bytes_touched = passes * s.outside * s.hidden * s.element();
  cost.evaluation.bytes_touched = cost.forward.bytes_touched;
  cost.backward_input.bytes_touched = s.frozen ? 0 : 2 * cost.forward.bytes_touched;
  return cost;
}

ModuleCost CostOfHead(const LocalSizes& s, const ModelConfig& config, std::int64_t chunk) {
  ModuleCost cost = CostOfProgram(s, PlanHead(config, s, chunk));
  const std::int64_t outside = s.outside * s.hidden * s.element();
  const std::int64_t logits = s.tokens * s.vocabulary * s.element();
  const std::int64_t scaling = config.logits_scaling == 1 ? 0 : 2 * logits;
  cost.evaluation.bytes_touched = 2 * outside + logits + scaling;
  cost.forward.bytes_touched = 7 * outside + 3 * logits + 2 * scaling;
  return cost;
}

}  // namespace trireme
