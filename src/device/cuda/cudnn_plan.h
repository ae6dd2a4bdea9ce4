// A graph of cuDNN's backend operations and the plan made from it, by the C interface alone. Tensors have four dims.
// cuDNN accepts graphs that it then computes wrongly: the forms that are known to be right are in attention.cc.
#pragma once

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trireme {

// A graph that this version of cuDNN does not compute, or not on this GPU.
class CudnnUnsupported : public Error {
 public:
  using Error::Error;
};

// Throws an Error that names `what` was tried and cuDNN's own text, unless the status is success: a CudnnUnsupported
// where cuDNN refuses what it was given.
void CheckCudnn(cudnnStatus_t status, const char* what);

// Owns one backend descriptor.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  template <typename Value>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    Set(name, type, 1, &value);
  }
  void SetDescriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& other);
  void Finalize(const char* what);
  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

using Extents = std::array<std::int64_t, 4>;
// Row-major strides.
Extents DenseStrides(const Extents& extents);

// What a plan needs at every run. Pointers to scalars are to host memory.
struct CudnnBinding {
  std::int64_t id = 0;
  void* data = nullptr;
};

class CudnnPlan {
 public:
  CudnnPlan(CudnnDescriptor plan, std::int64_t workspace_bytes)
      : plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  // `bindings` names exactly the graph's real tensors and scalars. Asynchronous on the handle's stream.
  void Execute(cudnnHandle_t handle, const std::vector<CudnnBinding>& bindings, void* workspace) const;

 private:
  CudnnDescriptor plan_;
  std::int64_t workspace_bytes_;
};

class CudnnGraph {
 public:
  struct Node {
    std::int64_t id = 0;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    Extents extents{};
    Extents strides{};
    bool is_virtual = true;
    bool is_scalar = false;
    const Node* offsets = nullptr;
  };
  using Value = const Node*;  // valid as long as the graph
  // How much of a product's extents a batch entry has: int32 [B, 1, 1, 1] each, or missing.
  struct Lengths {
    Value m = nullptr;
    Value n = nullptr;
    Value k = nullptr;
  };

  // A tensor in memory, bound by `id`; ids below 100 are the caller's.
  // `offsets`, int64 [B + 1, 1, 1, 1], says where in it each batch entry begins, instead of the first stride; may be
  // missing.
  Value Real(std::int64_t id, cudnnDataType_t type, const Extents& extents, const Extents& strides,
             Value offsets = nullptr);
  // One fp32 number in host memory, bound by `id`.
  Value Scalar(std::int64_t id);

  // Each of these appends an operation. The result is a new virtual fp32 tensor, dense, unless `result` is given.
  Value Pointwise(cudnnPointwiseMode_t mode, Value x, Value b = nullptr, Value result = nullptr);
  // The gradient of `x` out of that of a function of it; `mode` is a CUDNN_POINTWISE_…_BWD.
  Value PointwiseBackward(cudnnPointwiseMode_t mode, Value gradient, Value x);
  Value Index(Value like, std::int64_t axis);
  // `mode` is a CUDNN_POINTWISE_CMP_… or CUDNN_POINTWISE_LOGICAL_….
  Value Compare(cudnnPointwiseMode_t mode, Value a, Value b);
  // Where `mask`, x; elsewhere the scalar.
  Value Select(Value mask, Value x, Value scalar);
  Value Matmul(Value a, Value b, Value result, const Lengths& lengths);
  Value Matmul(Value a, Value b, Value result = nullptr) { return Matmul(a, b, result, {}); }
  Value Reduce(cudnnReduceTensorOp_t operation, Value x, Value result);
  // A view of `x` with its last two dims exchanged.
  Value Transpose(Value x, cudnnDataType_t type);
  // A virtual tensor, dense, to be given as a result.
  Value Virtual(cudnnDataType_t type, const Extents& extents);

  // The plan of the first engine that accepts the graph; none when no engine does.
  std::optional<CudnnPlan> Build(cudnnHandle_t handle) const;

 private:
  const CudnnDescriptor& Describe(Value value);
  Value Add(Node node);
  void AddPointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision, std::int64_t axis,
                    const std::vector<std::pair<cudnnBackendAttributeName_t, Value>>& operands);

  std::deque<Node> nodes_;
  std::deque<CudnnDescriptor> tensors_;  // of nodes_, in their order
  std::vector<CudnnDescriptor> parts_;   // what operations refer to
  std::vector<CudnnDescriptor> operations_;
};

}  // namespace trireme
