// What each step of a block costs. Operations and communicators count the same from actual shapes (law 5).
#include "cost/module_cost.h"
#include "lowering/operands.h"
#include "lowering/ring_plan.h"

namespace trireme {
namespace {

class StepCosts {
 public:
  StepCosts(const LocalSizes& sizes, const BlockProgram& program) : sizes_(sizes), program_(program) {}

  WorkCost Of(const BlockStep& step) const {
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
    } else {
      cost.bytes_touched = TouchedBy(step.work);
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
  void AddContext(const BlockWork& work, WorkCost& cost) const {
    if (const auto* gather = std::get_if<GatherKeysStep>(&work)) {
      cost.context.Add(CollectiveKind::kAllGather, Bytes(gather->kv));
    } else if (const auto* reduce = std::get_if<ReduceKeysStep>(&work)) {
      cost.context.Add(CollectiveKind::kReduceScatter, Bytes(reduce->grad_kv));
    } else if (const auto* swap = std::get_if<SwapHeadsStep>(&work)) {
      cost.context.Add(CollectiveKind::kAllToAll, Bytes(swap->from));
    }
  }

  // Norms over heads that the tensor axis cuts.
  void AddExchange(const BlockWork& work, WorkCost& cost) const {
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

  // Every buffer of an element-wise step is read or written once; one that is changed in place, twice.
  std::int64_t TouchedBy(const BlockWork& work) const {
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
      bytes += operand.is_buffer() ? Bytes(operand.id) : 0;
    }
    return std::holds_alternative<RotaryStep>(work) ? 2 * bytes : bytes;
  }

  const LocalSizes& sizes_;
  const BlockProgram& program_;
};

}  // namespace

ModuleCost CostOfBlock(const LocalSizes& sizes, const BlockProgram& program) {
  const StepCosts costs(sizes, program);
  ModuleCost cost;
  for (const BlockStep& step : program.forward) {
    cost.forward += costs.Of(step);
  }
  cost.evaluation = cost.forward;
  for (const std::vector<BlockStep>* steps : {&program.backward, &program.backward_weight}) {
    for (const BlockStep& step : *steps) {
      // A block that is recomputed whole does both parts at once: only scratch holds its second forward.
      const bool weight_part = step.weight_part && !sizes.recompute_block;
      (weight_part ? cost.backward_weight : cost.backward_input) += costs.Of(step);
    }
  }
  return cost;
}

ModuleCost CostOfBlock(const LocalSizes& sizes, const ModelConfig& config) {
  return CostOfBlock(sizes, PlanBlock(config, sizes));
}

}  // namespace trireme
