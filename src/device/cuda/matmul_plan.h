// A product as cuBLASLt knows it: operation, layouts and the algorithm chosen for it.
#pragma once

#include "device/cuda/matmul_cublaslt.h"

namespace trireme {

// The layout of a row-major matrix, which is the column-major matrix of the transposed shape.
class MatrixLayout {
 public:
  MatrixLayout() = default;
  ~MatrixLayout() {
    if (layout_ != nullptr) {
      cublasLtMatrixLayoutDestroy(layout_);
    }
  }
  MatrixLayout(const MatrixLayout&) = delete;
  MatrixLayout& operator=(const MatrixLayout&) = delete;
  void Set(const Tensor& matrix);
  // Rows lie `row` elements apart.
  void Set(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t row);
  // `count` such matrices that lie `stride` elements apart.
  void SetBatch(std::int64_t count, std::int64_t stride);
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

struct CublasLtMatmul::Plan {
  ~Plan() {
    if (product != nullptr) {
      cublasLtMatmulDescDestroy(product);
    }
  }
  cublasLtMatmulDesc_t product = nullptr;
  MatrixLayout a;
  MatrixLayout b;
  MatrixLayout c;
  bool possible = false;
  cublasLtMatmulAlgo_t algorithm{};
  float milliseconds = 0;  // of the measurement; 0 when there was none
};

}  // namespace trireme
