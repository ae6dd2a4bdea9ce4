// Muon's matrices: brings each whole matrix of directions to the rank that owns it (cost/optimizer_plan.h),
// orthogonalises it there and brings the pieces back. Every element travels as fp32, so that the result is a function
// of the whole matrix alone, whatever the layout.
#pragma once

#include <vector>

#include "comm/grid_comms.h"
#include "cost/optimizer_plan.h"
#include "device/arena.h"
#include "optim/shards.h"

namespace trireme {

class Muon {
 public:
  // Takes ExtraBytes of the plan from the arena's optimizer memory. Everything referred to outlives this.
  Muon(Arena& arena, GridComms& comms, const OptimizerPlan& plan, const ShardedState& sharded,
       const std::vector<OwnedShard>& shards);

  // Replaces the directions in the gradients of all matrices. Collective over the ranks of a stage.
  void Orthogonalise();

 private:
  void Gather(int round);
  void Compute(int round);
  void Scatter(int round);
  // A matrix's own part among the gradients of this rank; empty where it owns none.
  Tensor OwnPart(const OwnedMatrix& matrix) const;
  // Calls visit(matrix, data rank, its part within the slice, offset within what goes to the owner).
  template <typename Visit>
  void ForEachPart(int round, Visit visit) const;
  // Moves a slice of tensor rank `tensor` into the whole matrix, or back.
  void MoveSlice(const OwnedMatrix& matrix, int tensor, const Tensor& slice, bool back);
  // Where a slice that this data rank owns lies between the data exchange and the tensor exchange.
  Tensor SliceOf(const OwnedMatrix& matrix) const;

  GridComms& comms_;
  Device& device_;
  Ops& ops_;
  const MatrixPlan& plan_;
  const ShardedState& sharded_;
  const std::vector<OwnedShard>& shards_;
  Coordinate here_;  // data: among the ranks that ZeRO shards over
  bool gathers_;
  Tensor whole_;
  Tensor workspace_;
  Tensor sum_;
  Tensor data_out_, data_in_;      // what leaves this rank for each data rank, and what comes from each
  Tensor tensor_out_, tensor_in_;  // likewise among tensor ranks
};

}  // namespace trireme
