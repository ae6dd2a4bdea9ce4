#include "base/dtype.h"

#include <array>
#include <string>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 9> kNames = {{{DType::kFloat32, "fp32"},
                                                                       {DType::kBFloat16, "bf16"},
                                                                       {DType::kFloat16, "fp16"},
                                                                       {DType::kInt32, "int32"},
                                                                       {DType::kInt64, "int64"},
                                                                       {DType::kUInt8, "uint8"},
                                                                       {DType::kFloat8E4M3, "e4m3"},
                                                                       {DType::kFloat8E5M2, "e5m2"},
                                                                       {DType::kUInt16, "uint16"}}};

}  // namespace

std::string_view Name(DType dtype) {
  for (const auto& [value, name] : kNames) {
    if (value == dtype) {
      return name;
    }
  }
  return "?";
}

DType ParseDType(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) {
      return value;
    }
  }
  Fail("'{}' is not an element type; known are fp32, bf16, fp16, int32, int64, uint8, e4m3, e5m2, uint16", name);
}

}  // namespace trireme
