#include "checkpoint/format/shape_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/wide_count.h"
#include "checkpoint/format/bounded_json.h"

namespace trireme {

std::vector<std::int64_t> Extents(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    extents.push_back(shape[dim]);
  }
  return extents;
}

Shape ParseShape(const nlohmann::json& list, const std::string& origin, const std::string& tensor) {
  const auto extents = CountsOf(list, "shape of " + tensor, origin);
  Require(!extents.empty() && extents.size() <= Shape::kMaxRank, "'{}': '{}' has {} dims; 1 to {} are known", origin,
          tensor, extents.size(), Shape::kMaxRank);
  WideCount count = 1;
  for (const std::int64_t extent : extents) {
    count *= static_cast<WideCount>(extent);
    Require(extent > 0 && count <= (WideCount{1} << 53), "'{}': the shape of '{}' has an impossible extent {}", origin,
            tensor, extent);
  }
  switch (extents.size()) {
    case 1:
      return {extents[0]};
    case 2:
      return {extents[0], extents[1]};
    case 3:
      return {extents[0], extents[1], extents[2]};
    default:
      return {extents[0], extents[1], extents[2], extents[3]};
  }
}

}  // namespace trireme
