#include "device/cuda/cudnn_plan.h"

#include <fmt/format.h>

#include <string>

namespace trireme {
namespace {

constexpr std::int64_t kFirstOwnId = 100;
constexpr std::int64_t kTensorAlignment = 16;
constexpr std::int64_t kNoAxis = -1;

std::vector<CudnnDescriptor> EngineConfigurations(const CudnnDescriptor& graph) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  heuristics.Finalize("choose engines");
  std::int64_t count = 0;
  CheckCudnn(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                      &count, nullptr),
             "count engines");
  std::vector<CudnnDescriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configurations.back().get());
  }
  if (count > 0) {
    std::int64_t given = 0;
    CheckCudnn(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        count, &given, raw.data()),
               "list engines");
    while (static_cast<std::int64_t>(configurations.size()) > given) {
      configurations.pop_back();
    }
  }
  return configurations;
}

}  // namespace

void CheckCudnn(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]] {
    char detail[1024] = "";
    cudnnGetLastErrorString(detail, sizeof(detail));
    const std::string message = fmt::format("cuDNN: {}: {} {}", what, cudnnGetErrorString(status), detail);
    const int category = CUDNN_STATUS_CATEGORY(status);
    if (category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM) {
      throw CudnnUnsupported(message);
    }
    throw Error(message);
  }
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  CheckCudnn(cudnnBackendCreateDescriptor(type, &descriptor_), "make a descriptor");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) {
    cudnnBackendDestroyDescriptor(descriptor_);
  }
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* values) {
  CheckCudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values), "set an attribute");
}

void CudnnDescriptor::SetDescriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
  Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
}

void CudnnDescriptor::Finalize(const char* what) { CheckCudnn(cudnnBackendFinalize(descriptor_), what); }

Extents DenseStrides(const Extents& extents) {
  return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

void CudnnPlan::Execute(cudnnHandle_t handle, const std::vector<CudnnBinding>& bindings, void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const CudnnBinding& binding : bindings) {
    ids.push_back(binding.id);
    pointers.push_back(binding.data);
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(bindings.size());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.Finalize("bind tensors");
  CheckCudnn(cudnnBackendExecute(handle, plan_.get(), pack.get()), "run a plan");
}

CudnnGraph::Value CudnnGraph::Add(Node node) {
  nodes_.push_back(node);
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, node.type);
  tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, node.extents.data());
  tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, node.strides.data());
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, node.id);
  tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kTensorAlignment);
  tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, node.is_virtual);
  if (node.is_scalar) {
    tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  }
  if (node.offsets != nullptr) {
    tensor.SetDescriptor(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, Describe(node.offsets));
  }
  tensor.Finalize("describe a tensor");
  tensors_.push_back(std::move(tensor));
  return &nodes_.back();
}

CudnnGraph::Value CudnnGraph::Real(std::int64_t id, cudnnDataType_t type, const Extents& extents,
                                   const Extents& strides, Value offsets) {
  return Add({id, type, extents, strides, false, false, offsets});
}

CudnnGraph::Value CudnnGraph::Scalar(std::int64_t id) {
  return Add({id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true, nullptr});
}

CudnnGraph::Value CudnnGraph::Virtual(cudnnDataType_t type, const Extents& extents) {
  return Add({kFirstOwnId + static_cast<std::int64_t>(nodes_.size()), type, extents, DenseStrides(extents), true, false,
              nullptr});
}

const CudnnDescriptor& CudnnGraph::Describe(Value value) {
  std::size_t at = 0;
  while (&nodes_[at] != value) {
    ++at;
  }
  return tensors_[at];
}

void CudnnGraph::AddPointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision, std::int64_t axis,
                              const std::vector<std::pair<cudnnBackendAttributeName_t, Value>>& operands) {
  CudnnDescriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  kind.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision);
  if (axis != kNoAxis) {
    kind.Set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  }
  kind.Finalize("describe an element-wise operation");
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  for (const auto& [name, value] : operands) {
    operation.SetDescriptor(name, Describe(value));
  }
  operation.Finalize("add an element-wise operation");
  parts_.push_back(std::move(kind));
  operations_.push_back(std::move(operation));
}

CudnnGraph::Value CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, Value x, Value b, Value result) {
  const Value y = result != nullptr ? result : Virtual(CUDNN_DATA_FLOAT, x->extents);
  std::vector<std::pair<cudnnBackendAttributeName_t, Value>> operands{{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                                                                      {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}};
  if (b != nullptr) {
    operands.emplace_back(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  }
  AddPointwise(mode, CUDNN_DATA_FLOAT, kNoAxis, operands);
  return y;
}

CudnnGraph::Value CudnnGraph::PointwiseBackward(cudnnPointwiseMode_t mode, Value gradient, Value x) {
  const Value result = Virtual(CUDNN_DATA_FLOAT, x->extents);
  AddPointwise(mode, CUDNN_DATA_FLOAT, kNoAxis,
               {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                {CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, gradient},
                {CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, result}});
  return result;
}

CudnnGraph::Value CudnnGraph::Index(Value like, std::int64_t axis) {
  const Value y = Virtual(CUDNN_DATA_INT32, like->extents);
  AddPointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis,
               {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, like}, {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
  return y;
}

CudnnGraph::Value CudnnGraph::Compare(cudnnPointwiseMode_t mode, Value a, Value b) {
  const Value y = Virtual(CUDNN_DATA_BOOLEAN, a->extents);
  AddPointwise(mode, CUDNN_DATA_BOOLEAN, kNoAxis,
               {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a},
                {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
                {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
  return y;
}

CudnnGraph::Value CudnnGraph::Select(Value mask, Value x, Value scalar) {
  const Value y = Virtual(CUDNN_DATA_FLOAT, x->extents);
  AddPointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, kNoAxis,
               {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, scalar},
                {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask},
                {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
  return y;
}

CudnnGraph::Value CudnnGraph::Matmul(Value a, Value b, Value result, const Lengths& lengths) {
  const Extents extents{a->extents[0], a->extents[1], a->extents[2], b->extents[3]};
  const Value c = result != nullptr ? result : Virtual(CUDNN_DATA_FLOAT, extents);
  CudnnDescriptor kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.Finalize("describe a product");
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, Describe(a));
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, Describe(b));
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, Describe(c));
  for (const auto& [name, length] : {std::pair{CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths.m},
                                     std::pair{CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, lengths.n},
                                     std::pair{CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, lengths.k}}) {
    if (length != nullptr) {
      operation.SetDescriptor(name, Describe(length));
    }
  }
  operation.Finalize("add a product");
  parts_.push_back(std::move(kind));
  operations_.push_back(std::move(operation));
  return c;
}

CudnnGraph::Value CudnnGraph::Reduce(cudnnReduceTensorOp_t operation_kind, Value x, Value result) {
  CudnnDescriptor kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation_kind);
  kind.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.Finalize("describe a reduction");
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, Describe(x));
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, Describe(result));
  operation.Finalize("add a reduction");
  parts_.push_back(std::move(kind));
  operations_.push_back(std::move(operation));
  return result;
}

CudnnGraph::Value CudnnGraph::Transpose(Value x, cudnnDataType_t type) {
  Node node{
      kFirstOwnId + static_cast<std::int64_t>(nodes_.size()), type, x->extents, x->strides, true, false, x->offsets};
  std::swap(node.extents[2], node.extents[3]);
  std::swap(node.strides[2], node.strides[3]);
  const Value y = Add(node);
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, Describe(x));
  operation.SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, Describe(y));
  operation.Finalize("add a view");
  operations_.push_back(std::move(operation));
  return y;
}

std::optional<CudnnPlan> CudnnGraph::Build(cudnnHandle_t handle) const {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnDescriptor& operation : operations_) {
    raw.push_back(operation.get());
  }
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()),
            raw.data());
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.Finalize("make a graph");
  for (const CudnnDescriptor& configuration : EngineConfigurations(graph)) {
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) {
      continue;
    }
    std::int64_t workspace_bytes = 0;
    std::int64_t count = 0;
    CheckCudnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                        &count, &workspace_bytes),
               "size the workspace");
    return CudnnPlan(std::move(plan), workspace_bytes);
  }
  return std::nullopt;
}

}  // namespace trireme
