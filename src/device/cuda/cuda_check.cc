#include "device/cuda/cuda_check.h"

#include "base/error.h"

namespace trireme {

void CheckCuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) [[unlikely]] {
    cudaGetLastError();  // the next call must not report this one again
    Fail("CUDA: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  }
}

void CheckCublas(cublasStatus_t status, const char* what) {
  Require(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt: {}: {}", what, cublasLtGetStatusString(status));
}

void RefuseType(DType dtype, const char* operation) { Fail("CUDA: {} has no kernel for {}", operation, Name(dtype)); }

void RefuseSize(const char* operation, const char* what, std::int64_t value, std::int64_t limit) {
  Fail("CUDA: {} takes at most {} {}, not {}", operation, limit, what, value);
}

}  // namespace trireme
