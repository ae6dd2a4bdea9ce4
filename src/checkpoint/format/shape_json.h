// Global shapes as JSON: one to four positive extents whose product is below 2^53.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/shape.h"

namespace trireme {

std::vector<std::int64_t> Extents(const Shape& shape);
// `tensor` and `origin` are for errors.
Shape ParseShape(const nlohmann::json& list, const std::string& origin, const std::string& tensor);

}  // namespace trireme
