// The list of a model's tensors in Hugging Face's form, as it grows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/hugging_face/tensors.h"
#include "model/parameter_table.h"

namespace trireme {

// A row of -1 is a parameter that the model does not have: nothing is added.
class TensorList {
 public:
  explicit TensorList(const ParameterTable& table, ExpertTensors experts = ExpertTensors::kEach)
      : table_(table), experts_(experts) {}

  bool fuses_experts() const { return experts_ == ExpertTensors::kFused; }

  void Whole(const std::string& name, int row, TensorOrder order = TensorOrder::kRows);
  // Rows [first, first + rows) of a parameter, of which rows are all but the last extent.
  void Rows(const std::string& name, int row, std::int64_t first, std::int64_t rows);
  // One tensor for each segment of a cut parameter.
  void Segments(const std::vector<std::string>& names, int row);
  // The weight and the bias of a norm or a linear layer of a block: `name`.weight from `ours`.gain or .weight.
  void Norm(const std::string& name, std::int64_t layer, const std::string& ours);
  void Linear(const std::string& name, std::int64_t layer, const std::string& ours,
              TensorOrder order = TensorOrder::kRows);

  std::vector<HuggingFaceTensor> Take() { return std::move(tensors_); }

 private:
  const ParameterTable& table_;
  ExpertTensors experts_;
  std::vector<HuggingFaceTensor> tensors_;
};

}  // namespace trireme
