// Adafactor's directions (Shazeer and Stern 2018), without first moments: a matrix keeps the means of its squared
// gradients by row and by column, which every rank that holds a part of it holds whole; a vector keeps the mean of each
// element. Directions are clipped to a root mean square of 1. A rate may follow the root mean square of the parameter.
#pragma once

#include <vector>

#include "comm/grid_comms.h"
#include "cost/optimizer_plan.h"
#include "device/arena.h"
#include "optim/shards.h"

namespace trireme {

struct AdafactorOptions {
  bool relative_step = false;
  bool scale_parameter = true;
};

struct FactoredMoments {
  int row = 0;  // of the ParameterTable
  Tensor rows;  // fp32, one number per row of the whole matrix
  Tensor columns;
};

// What multiplies a parameter's rate, and its direction.
struct DirectionScale {
  float rate = 1;
  float direction = 1;
};

class Adafactor {
 public:
  static constexpr float kSquareEpsilon = 1e-30F;

  // Takes ExtraBytes of the plan from the arena's optimizer memory. Everything referred to outlives this.
  Adafactor(Arena& arena, GridComms& comms, const OptimizerPlan& plan, const ShardedState& sharded,
            const std::vector<OwnedShard>& shards, const AdafactorOptions& options);

  // 1 - step^-0.8.
  static float SecondBeta(std::int64_t step);
  // Updates the factored moments and replaces the gradients of matrices by directions; those of vectors must be
  // directions already (UpdateKind::kRootScale). Then ScaleOf is known. Collective over the ranks of a stage.
  void MakeDirections(float gradient_scale, std::int64_t step);
  DirectionScale ScaleOf(int row) const { return scales_[static_cast<std::size_t>(row)]; }
  float Rate(float scheduled, std::int64_t step) const;
  const std::vector<FactoredMoments>& moments() const { return moments_; }

 private:
  // A parameter of the stage, and the part of it that this rank updates.
  struct Part {
    int row = 0;
    Shape local;  // the slice's
    Tensor gradient;
    Tensor weight;
    std::int64_t first = 0;  // of the slice
    bool counted = true;     // false: another tensor rank counts this replicated parameter
    int factored = -1;       // index into moments_
    std::int64_t work = 0;   // offset into work_
  };
  void ReduceOverStage(const Tensor& numbers);
  void SumSquares(float gradient_scale);
  void UpdateFactors(float gradient_scale, std::int64_t step);
  void MeasureDirections();
  // Rows (dim 0) or columns (dim 1) of the whole matrix, by those of this rank's slice; -1: padding.
  std::vector<std::int64_t> GlobalIndices(const Part& part, int dim) const;

  Device& device_;
  Ops& ops_;
  GridComms& comms_;
  const ShardedState& sharded_;
  AdafactorOptions options_;
  std::vector<Part> parts_;
  std::vector<FactoredMoments> moments_;
  std::vector<DirectionScale> scales_;  // by row of the table
  Tensor work_;                         // sums, then factors, of rows and columns
  Tensor squares_;                      // of each parameter: of its direction, and of its weights
};

}  // namespace trireme
