// How modules reach parameters and hand over gradients, whatever ZeRO stage is behind it. nn declares these two
// interfaces; train implements them.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace trireme {

// Which memory a piece of work needs: the parameters of a module, the tied token table, or both.
struct ParameterUse {
  std::int64_t module = 0;
  bool own = true;
  bool tied = false;
  bool any() const { return own || tied; }
};

class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // Starts to make the parameters of `use` present; at most two uses are gathered and not yet released.
  virtual void Gather(const ParameterUse& use) = 0;
  // The slice of a table row in the working type, once it is present. Valid until Release.
  virtual Tensor Get(int row) = 0;
  virtual void Release(const ParameterUse& use) = 0;
  // Version of the row's values, for MatmulArgs::weight_version; 0 where they are used once or made present for each
  // use.
  virtual std::int64_t Version(int row) const = 0;
};

class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // Work that adds to the gradients of `use` is about to run for one micro batch.
  virtual void Open(const ParameterUse& use) = 0;
  // fp32, of the slice's shape; to be added to between Open and Finish.
  virtual Tensor Gradient(int row) = 0;
  // Whether nothing has been added yet to the gradient of a matrix of a block or the head that work of the micro batch
  // adds to: its contents are then undefined, and the work must overwrite them. `first` as MicroBatch::first.
  virtual bool Untouched(int row, bool first) const = 0;
  // `last`: none of the step's micro batches will add to what this piece of work added to.
  virtual void Finish(const ParameterUse& use, bool last) = 0;
};

}  // namespace trireme
