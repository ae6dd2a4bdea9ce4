// Executes a PowerSgdPlan over the data ranks. Each rank adds what earlier steps left out to its gradient (error
// feedback), and each Q starts from the last step's. All data ranks end with equal bits.
//
// Its state is not saved: after a resume, and after each step without an update, what was left out starts at zero and Q
// is drawn afresh, as in a new run; so a step that is passed over leaves nothing behind, however that came about. A
// tensor rank compresses its own slices, so that results depend on the tensor degree, as they do on the data degree.
#pragma once

#include "comm/communicator.h"
#include "cost/power_sgd_plan.h"
#include "device/arena.h"

namespace trireme {

class PowerSgd {
 public:
  // Takes plan.Bytes() of the arena's gradient memory. Everything referred to outlives this.
  PowerSgd(Arena& arena, Communicator& data, const PowerSgdPlan& plan);

  // Replaces a bucket's gradient by the approximate sum over the data ranks. Collective. The host waits for P.
  void Reduce(std::size_t bucket, const Tensor& gradient);
  // Back to the state of a new run: nothing is left out, and each Q is drawn afresh.
  void Reset();
  // When later gradients come multiplied by `factor`.
  void RescaleResiduals(float factor);

  // Q of a matrix, [columns, rank].
  Tensor right(const CompressedMatrix& matrix) const {
    return rights_.Range(matrix.right, matrix.columns * matrix.rank).Reshaped({matrix.columns, matrix.rank});
  }
  Tensor error(const CompressedMatrix& matrix) const {
    return errors_.Range(matrix.error, matrix.count()).Reshaped({matrix.rows, matrix.columns});
  }

 private:
  void Orthonormalise(const Tensor& matrix);

  Device& device_;
  Ops& ops_;
  Communicator& data_;
  const PowerSgdPlan& plan_;
  Tensor rights_;
  Tensor errors_;
  Tensor left_;      // all P of the bucket at hand
  Tensor own_;       // all Q of the bucket, of this rank's gradient alone
  Tensor negative_;  // the same times -1
};

}  // namespace trireme
