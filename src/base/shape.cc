#include "base/shape.h"

namespace trireme {

std::string Shape::ToString() const {
  std::string text = "[";
  for (int dim = 0; dim < rank_; ++dim) {
    text += (dim == 0 ? "" : ", ") + std::to_string((*this)[dim]);
  }
  return text + "]";
}

}  // namespace trireme
