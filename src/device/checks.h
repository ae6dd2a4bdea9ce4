// Checks of operands that the public functions of Ops share. Each throws an Error that names the operation, the operand
// and both shapes or types. Matrices are checked by shape, vectors by count, so that [B, T] may stand for [B * T].
#pragma once

#include <string_view>

#include "ops/tensor.h"

namespace trireme {

// An operand of an operation, as messages name it.
struct Operand {
  std::string_view operation;
  std::string_view name;
  const Tensor& tensor;
};

void RequireGiven(const Operand& operand);
void RequireShape(const Operand& operand, const Shape& shape);
void RequireMatrix(const Operand& operand);
void RequireCount(const Operand& operand, std::int64_t count);
void RequireType(const Operand& operand, DType dtype);
// fp32, bf16 or fp16.
void RequireWorkingType(const Operand& operand);

// Both shape (or count) and type.
void RequireLike(const Operand& operand, const Shape& shape, DType dtype);
void RequireVector(const Operand& operand, std::int64_t count, DType dtype);
// `largest` of an operation that notes magnitudes for Quantize; it may be missing.
void RequireLargest(std::string_view operation, const Tensor& largest);

}  // namespace trireme
