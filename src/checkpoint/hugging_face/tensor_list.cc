#include "checkpoint/hugging_face/tensor_list.h"

#include <algorithm>

namespace trireme {

void TensorList::Whole(const std::string& name, int row, TensorOrder order) {
  if (row < 0) {
    return;
  }
  const Shape& shape = table_.rows()[static_cast<std::size_t>(row)].shape;
  std::vector<std::int64_t> extents;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    extents.push_back(shape[dim]);
  }
  if (order == TensorOrder::kTransposed) {
    std::reverse(extents.begin(), extents.end());
  }
  tensors_.push_back({.name = name, .shape = extents, .row = row, .order = order});
}

void TensorList::Rows(const std::string& name, int row, std::int64_t first, std::int64_t rows) {
  const Shape& shape = table_.rows()[static_cast<std::size_t>(row)].shape;
  tensors_.push_back({.name = name, .shape = {rows, shape[shape.rank() - 1]}, .row = row, .first_row = first});
}

void TensorList::Segments(const std::vector<std::string>& names, int row) {
  if (row < 0) {
    return;
  }
  const Parameter& parameter = table_.rows()[static_cast<std::size_t>(row)];
  std::int64_t first = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::int64_t rows = parameter.split.segments[i];
    std::vector<std::int64_t> extents = {rows};
    if (parameter.shape.rank() == 2) {
      extents.push_back(parameter.shape[1]);
    }
    tensors_.push_back({.name = names[i], .shape = extents, .row = row, .first_row = first});
    first += rows;
  }
}

void TensorList::Norm(const std::string& name, std::int64_t layer, const std::string& ours) {
  Whole(name + ".weight", table_.InBlock(layer, ours + ".gain"));
  Whole(name + ".bias", table_.InBlock(layer, ours + ".bias"));
}

void TensorList::Linear(const std::string& name, std::int64_t layer, const std::string& ours, TensorOrder order) {
  Whole(name + ".weight", table_.InBlock(layer, ours + ".weight"), order);
  // A transposed matrix has a bias like any other.
  Whole(name + ".bias", table_.InBlock(layer, ours + ".bias"),
        order == TensorOrder::kTransposed ? TensorOrder::kRows : order);
}

}  // namespace trireme
