// One tensor rank's slices of all parameters, read in the working type: no gradients, no optimizer.
#pragma once

#include <string>
#include <vector>

#include "device/arena.h"
#include "model/parameter_table.h"
#include "nn/parameters.h"

namespace trireme {

struct WeightSlice {
  DType dtype = DType::kFloat32;
  int tensor = 1;  // degree of the tensor axis
  int tensor_rank = 0;
};

class ModelWeights : public ParameterSource {
 public:
  // Bytes that the slices take of an arena.
  static std::int64_t Bytes(const ParameterTable& table, const WeightSlice& slice);

  // Takes its memory from `arena` as kWeights and reads the weights at `path` (see OpenWeights). An Error names a
  // parameter that is missing or has another shape.
  ModelWeights(Arena& arena, const ParameterTable& table, const WeightSlice& slice, const std::string& path);

  // Not given for row -1, which stands for a parameter that the family does not have.
  Tensor Get(int row) override { return row < 0 ? Tensor{} : slices_[static_cast<std::size_t>(row)]; }

  // All weights are always present.
  void Gather(const ParameterUse&) override {}
  void Release(const ParameterUse&) override {}
  // They never change.
  std::int64_t Version(int) const override { return 1; }

 private:
  std::vector<Tensor> slices_;
};

}  // namespace trireme
