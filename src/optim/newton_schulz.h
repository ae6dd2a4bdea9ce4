// Muon's orthogonalisation of a matrix by Newton-Schulz iterations (Jordan 2024): X <- a X + (b G + c G^2) X for
// G = X X^T, from X = matrix / its Frobenius norm. Where there are more rows than columns G = X^T X multiplies from the
// right, so that G is the smaller of the two.
#pragma once

#include "device/device.h"

namespace trireme {

// fp32 [R, C], replaced by the result. Operands of products have type `dtype`, fp32 or bf16; products are fp32.
// `workspace`: NewtonSchulzBytes (cost/optimizer_plan.h) bytes; `sum`: one fp32 number. FLOPs count as the update's.
// The host waits once, for the norm.
struct NewtonSchulzArgs {
  Tensor matrix;
  Tensor workspace;
  Tensor sum;
  DType dtype = DType::kFloat32;
  int iterations = 5;
};
void NewtonSchulz(Device& device, const NewtonSchulzArgs& args);

}  // namespace trireme
