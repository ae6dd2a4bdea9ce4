// What one micro batch costs a rank in a module: FLOPs and traffic of the tensor and context groups of each part of the
// work, and the elements that memory-bound kernels touch. Ops and communicators count the same from actual shapes (law
// 5).
#pragma once

#include "base/accounting.h"
#include "lowering/local_sizes.h"
#include "lowering/module_program.h"
#include "model/model_config.h"

namespace trireme {

struct WorkCost {
  FlopCount flops;
  Traffic tensor;                  // collectives of the tensor group
  Traffic context;                 // of the context group
  std::int64_t bytes_touched = 0;  // read and written by kernels that are not matrix products: an estimate, for time
  WorkCost& operator+=(const WorkCost& other);
  bool operator==(const WorkCost&) const = default;
};

// The parts of a micro batch's work. A whole backward is the input part and then the weight part.
struct ModuleCost {
  WorkCost forward;
  WorkCost backward_input;  // recomputation included
  WorkCost backward_weight;
  WorkCost evaluation;  // forward without gradients
};

// One step of a program.
WorkCost CostOfWork(const LocalSizes& sizes, const ModuleProgram& program, const ProgramStep& step);
ModuleCost CostOfEmbedding(const LocalSizes& sizes, const ModelConfig& config);
ModuleCost CostOfBlock(const LocalSizes& sizes, const ModelConfig& config);
ModuleCost CostOfBlock(const LocalSizes& sizes, const ModuleProgram& program);
// chunk: tokens whose logits exist at once.
ModuleCost CostOfHead(const LocalSizes& sizes, const ModelConfig& config, std::int64_t chunk);

}  // namespace trireme
