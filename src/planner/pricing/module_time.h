// Seconds of one micro batch in a module of one rank, by cause. PriceModel has those of each module.
#pragma once

#include "cost/module_cost.h"
#include "lowering/local_sizes.h"
#include "lowering/module_program.h"
#include "planner/pricing/collective_time.h"
#include "planner/pricing/matmul_time.h"
#include "planner/pricing/plan_point.h"

namespace trireme {

struct WorkTime {
  double matmul = 0;
  double attention = 0;  // its products; unfused: its scores through memory too
  double memory = 0;     // element-wise kernels
  double tensor = 0;     // collectives of the tensor group
  double context = 0;    // of the context group, where attention waits for them
  double experts = 0;    // exchanges of rows in the expert group
  double overhead = 0;   // launches, host

  double total() const { return matmul + attention + memory + tensor + context + experts + overhead; }
  WorkTime& operator+=(const WorkTime& other);
  WorkTime operator*(double times) const;
};

struct ModuleTime {
  WorkTime forward;
  WorkTime backward_input;
  WorkTime backward_weight;
  WorkTime recomputed;  // part of backward_input

  double total() const { return forward.total() + backward_input.total() + backward_weight.total(); }
  ModuleTime& operator+=(const ModuleTime& other);
  ModuleTime operator*(double times) const;
};

// Whether the stack's rule on head sizes is broken: its attention products then run at attention_unaligned.
bool HeadMisaligned(const PlanPoint& point);

// Cost figures that a paced run shares (operate/paced_prices.h): the price of products; FLOP/s of fused attention,
// causal pairs alone; shares of the links that collectives reach within a layer (tensor, context) and between replicas.
MatmulPrice ProductPrice(const PlanPoint& point, ProductFormat format);
double FusedAttentionRate(const PlanPoint& point, std::int64_t head_size);
LinkShares InnerShares(const PlanPoint& point);
LinkShares OuterShares(const PlanPoint& point);

// The mean of a model's blocks of one kind, dense or with experts as `sizes` say; some may have windows. `program`:
// lowered for these sizes.
ModuleTime TimeOfKind(const PlanPoint& point, const LocalSizes& sizes, const ModuleProgram& program);
// The mean of all of a model's blocks. `program`: the model's block, lowered for these sizes;
// without it, it is lowered here.
ModuleTime TimeOfBlock(const PlanPoint& point, const LocalSizes& sizes, const ModuleProgram& program);
ModuleTime TimeOfBlock(const PlanPoint& point, const LocalSizes& sizes);

}  // namespace trireme
