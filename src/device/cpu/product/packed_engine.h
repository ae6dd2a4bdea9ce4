// Trireme's own products: operands are packed into panels, then tiles of c are made by the kernels of one instruction
// level. Sums are in fp32 and their order depends on the depth and the kernel alone, so the number of threads does not
// change a bit.
#pragma once

#include <memory>

#include "device/cpu/matmul.h"
#include "device/cpu/product/kernel.h"

namespace trireme {

// `for_float` multiplies fp32 and fp16 operands, `for_bf16` bf16 ones.
std::unique_ptr<MatmulEngine> MakePackedEngine(std::string name, const ProductKernel& for_float,
                                               const ProductKernel& for_bf16, int threads);

}  // namespace trireme
