#include "ops/checks.h"

#include "base/error.h"
#include "base/float8.h"

namespace trireme {

void RequireGiven(const CheckedTensor& operand) {
  if (!operand.tensor.given() && operand.tensor.shape.count() != 0) {
    Fail("{}: {} is missing", operand.operation, operand.name);
  }
}

void RequireShape(const CheckedTensor& operand, const Shape& shape) {
  RequireGiven(operand);
  if (!(operand.tensor.shape == shape)) {
    Fail("{}: {} has shape {}, expected {}", operand.operation, operand.name, operand.tensor.shape.ToString(),
         shape.ToString());
  }
}

void RequireMatrix(const CheckedTensor& operand) {
  RequireGiven(operand);
  if (operand.tensor.shape.rank() != 2) {
    Fail("{}: {} has shape {}, expected a matrix", operand.operation, operand.name, operand.tensor.shape.ToString());
  }
}

void RequireCount(const CheckedTensor& operand, std::int64_t count) {
  RequireGiven(operand);
  if (operand.tensor.shape.count() != count) {
    Fail("{}: {} has shape {}, expected {} elements", operand.operation, operand.name, operand.tensor.shape.ToString(),
         count);
  }
}

void RequireType(const CheckedTensor& operand, DType dtype) {
  if (operand.tensor.dtype != dtype) {
    Fail("{}: {} {} is {}, expected {}", operand.operation, operand.name, operand.tensor.shape.ToString(),
         Name(operand.tensor.dtype), Name(dtype));
  }
}

void RequireWorkingType(const CheckedTensor& operand) {
  const DType dtype = operand.tensor.dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16 && dtype != DType::kFloat16) {
    Fail("{}: {} {} is {}, expected fp32, bf16 or fp16", operand.operation, operand.name,
         operand.tensor.shape.ToString(), Name(operand.tensor.dtype));
  }
}

void RequireLike(const CheckedTensor& operand, const Shape& shape, DType dtype) {
  RequireShape(operand, shape);
  RequireType(operand, dtype);
}

void RequireVector(const CheckedTensor& operand, std::int64_t count, DType dtype) {
  RequireCount(operand, count);
  RequireType(operand, dtype);
}

void RequireLargest(std::string_view operation, const Tensor& largest) {
  if (largest.given()) {
    RequireVector({operation, "largest", largest}, kLargestSlots, DType::kFloat32);
  }
}

}  // namespace trireme
