// Checks of tensors that operations share. Each throws an Error that names the operation, the tensor and both shapes or
// types. Matrices are checked by shape, vectors by count, so that [B, T] may stand for [B * T].
#pragma once

#include <string_view>

#include "ops/tensor.h"

namespace trireme {

// A tensor of an operation, as messages name it.
struct CheckedTensor {
  std::string_view operation;
  std::string_view name;
  const Tensor& tensor;
};

void RequireGiven(const CheckedTensor& operand);
void RequireShape(const CheckedTensor& operand, const Shape& shape);
void RequireMatrix(const CheckedTensor& operand);
void RequireCount(const CheckedTensor& operand, std::int64_t count);
void RequireType(const CheckedTensor& operand, DType dtype);
// fp32, bf16 or fp16.
void RequireWorkingType(const CheckedTensor& operand);

// Both shape (or count) and type.
void RequireLike(const CheckedTensor& operand, const Shape& shape, DType dtype);
void RequireVector(const CheckedTensor& operand, std::int64_t count, DType dtype);
// `largest` of an operation that notes magnitudes for Quantize; it may be missing.
void RequireLargest(std::string_view operation, const Tensor& largest);

}  // namespace trireme
