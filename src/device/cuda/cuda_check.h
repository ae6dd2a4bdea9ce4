// Checks of CUDA and cuBLASLt calls. This header is free of fmt, which nvcc cannot compile as C++20, so that
// kernel files may include it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "base/dtype.h"

namespace trireme {

// Each throws an Error that names `what` was tried and the library's own text, unless the status is success.
void CheckCuda(cudaError_t status, const char* what);
void CheckCublas(cublasStatus_t status, const char* what);

// Throws an Error: the operation has no kernel for `dtype`.
[[noreturn]] void RefuseType(DType dtype, const char* operation);
// Throws an Error: `operation` takes at most `limit` of `what`, and was given `value`.
[[noreturn]] void RefuseSize(const char* operation, const char* what, std::int64_t value, std::int64_t limit);

}  // namespace trireme
