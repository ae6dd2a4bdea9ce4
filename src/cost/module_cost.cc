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
    } else if (const auto* enter = std::get_if<EnterStep>(&step.work)) {
      cost.tensor.Add(CollectiveKind::kAllGather, Bytes(enter->to));
    } else if (const auto* leave = std::get_if<LeaveStep>(&step.work)) {
      cost.tensor.Add(sizes_.sequence_parallel ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
                      Bytes(leave->from));
    } else if (const auto* parts = std::get_if<GatherPartsStep>(&step.work)) {
      const std::int64_t row = Bytes(parts->parts) / program_.chunk;
      for (std::int64_t first = 0; first < program_.rows; first += program_.chunk) {
        cost.tensor.Add(CollectiveKind::kAllGather, row * std::min(program_.chunk, program_.rows - first));
      }
    } else {
      cost.bytes_touched = TouchedBy(step);
      AddExchange(step.work, cost);
      AddContext(step.work, cost);
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

  // What moves along the context axis.
  void AddContext(const StepWork& work, WorkCost& cost) const {
    if (const auto* gather = std::get_if<GatherKeysStep>(&work)) {
      cost.context.Add(CollectiveKind::kAllGather, Bytes(gather->kv));
    } else if (const auto* reduce = std::get_if<ReduceKeysStep>(&work)) {
      cost.context.Add(CollectiveKind::kReduceScatter, Bytes(reduce->grad_kv));
    } else if (const auto* swap = std::get_if<SwapHeadsStep>(&work)) {
      cost.context.Add(CollectiveKind::kAllToAll, Bytes(swap->from));
    }
  }

  // Norms over heads that the tensor axis cuts.
  void AddExchange(const StepWork& work, WorkCost& cost) const {
    if (const auto* norm = std::get_if<HeadNormStep>(&work); norm != nullptr && norm->exchanged) {
      cost.tensor.Add(CollectiveKind::kAllReduce, Bytes(norm->sums));
    } else if (const auto* backward = std::get_if<HeadNormBackwardStep>(&work);
               backward != nullptr && backward->exchanged) {
      cost.tensor.Add(CollectiveKind::kAllReduce, Bytes(backward->products));
    }
  }

  std::int64_t Bytes(BufferId id) const {
    const Place& buffer = program_.buffers[static_cast<std::size_t>(id)];
    return buffer.shape.count() * SizeOf(buffer.dtype);
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
    if (const auto* gather = std::get_if<GatherKeysStep>(&work)) {
      return 2 * Bytes(gather->kv) / sizes_.context;  // this rank's part is copied, the rest arrives
    }
    if (const auto* reduce = std::get_if<ReduceKeysStep>(&work)) {
      return 2 * Bytes(reduce->grad_kv) / sizes_.context;
    }
    if (const auto* swap = std::get_if<SwapHeadsStep>(&work)) {
      return 4 * Bytes(swap->from);  // copied before and after it travels
    }
    std::int64_t bytes = 0;
    for (const Operand& operand : OperandsOf(work)) {
      if (operand.is_buffer()) {
        bytes += step.chunked ? BytesOfChunks(operand.id) : Bytes(operand.id);
      }
    }
    return std::holds_alternative<RotaryStep>(work) ? 2 * bytes : bytes;
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
                              (config.embedding_norm ? 3 : 0) + (s.dropout ? 2 : 0) + (config.scale_embedding ? 2 : 0);
  cost.forward.bytes_touched = passes * s.outside * s.hidden * s.element();
  cost.evaluation.bytes_touched = cost.forward.bytes_touched;
  cost.backward_input.bytes_touched = s.frozen ? 0 : 2 * cost.forward.bytes_touched;
  return cost;
}

ModuleCost CostOfHead(const LocalSizes& s, const ModelConfig& config, std::int64_t chunk) {
  ModuleCost cost = CostOfProgram(s, PlanHead(config, s, chunk));
  const std::int64_t outside = s.outside * s.hidden * s.element();
  const std::int64_t logits = s.tokens * s.vocabulary * s.element();
  cost.evaluation.bytes_touched = 2 * outside + logits;
  cost.forward.bytes_touched = 7 * outside + 3 * logits;
  return cost;
}

}  // namespace trireme
