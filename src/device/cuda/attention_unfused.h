// Plain attention: products by cuBLASLt over all queries and keys of many heads at once, and the softmax between them,
// as frameworks compute attention without a fused kernel. The weights lie in memory of the caller.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "device/cuda/cuda_context.h"
#include "device/ops.h"

namespace trireme {

// c = alpha * op(a) * op(b), for each of `count` triples of row-major matrices that lie `stride` elements apart; rows
// of a matrix lie `row` elements apart. c is [rows, columns], summed over depth.
struct BatchedProduct {
  struct Matrix {
    void* data = nullptr;
    std::int64_t row = 0;
    std::int64_t stride = 0;
    bool transposed = false;
  };
  DType dtype = DType::kFloat32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  std::int64_t count = 1;
  Matrix a;
  Matrix b;
  Matrix c;
  float alpha = 1;
  bool accumulate = false;  // c += instead
};

class UnfusedAttention {
 public:
  // `context` must outlive the object.
  explicit UnfusedAttention(CudaContext& context);
  ~UnfusedAttention();
  UnfusedAttention(const UnfusedAttention&) = delete;
  UnfusedAttention& operator=(const UnfusedAttention&) = delete;

  // Require args.weights.
  void Forward(const AttentionArgs& args);
  void Backward(const AttentionArgs& args);

 private:
  struct Plan;
  using Key = std::array<std::int64_t, 12>;

  void Multiply(const BatchedProduct& product);
  const Plan& PlanFor(const BatchedProduct& product);

  CudaContext& context_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

// The rows of args.weights, scaled products, become weights in place; fills the statistics. With dropout args.scores
// gets what of them is left.
void SoftmaxScores(const CudaContext& context, const AttentionArgs& args);
// args.scores = args.weights with the mask of dropout.
void DropWeights(const CudaContext& context, const AttentionArgs& args);
// The rows of args.scores, gradients of the weights after dropout, become those of scale * products.
void SoftmaxGradients(const CudaContext& context, const AttentionArgs& args);

}  // namespace trireme
