// The functions of cuBLASLt that Trireme uses: operands are read as fp32, products are the CPU device's, and results
// are rounded once.
#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/float16.h"
#include "base/float8.h"
#include "cuda_on_cpu/access_check.h"
#include "cuda_on_cpu/streams.h"
#include "device/device.h"

namespace trireme::cuda_on_cpu {
namespace {

// Column-major, as the library has it.
struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};

struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  void* auxiliary = nullptr;
  std::int64_t auxiliary_leading = 0;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
};

Layout* LayoutOf(cublasLtMatrixLayout_t layout) { return reinterpret_cast<Layout*>(layout); }
Product* ProductOf(cublasLtMatmulDesc_t product) { return reinterpret_cast<Product*>(product); }

std::size_t SizeOf(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF || type == CUDA_R_16F ? 2 : 1;
}

template <typename T>
T ReadAs(const char* at) {
  T value{};
  std::memcpy(&value, at, sizeof(value));
  return value;
}

float Decoded(cudaDataType_t type, const char* at) {
  switch (type) {
    case CUDA_R_32F:
      return ReadAs<float>(at);
    case CUDA_R_16BF:
      return static_cast<float>(ReadAs<BFloat16>(at));
    case CUDA_R_16F:
      return static_cast<float>(ReadAs<Float16>(at));
    default:
      return DecodeFloat8(ReadAs<std::uint8_t>(at), type == CUDA_R_8F_E4M3 ? DType::kFloat8E4M3 : DType::kFloat8E5M2);
  }
}

void Encode(cudaDataType_t type, float value, char* at) {
  const auto store = [at](auto stored) { std::memcpy(at, &stored, sizeof(stored)); };
  if (type == CUDA_R_32F) {
    store(value);
  } else if (type == CUDA_R_16BF) {
    store(BFloat16(value));
  } else {
    store(Float16(value));
  }
}

// A matrix as fp32, rows of `layout.rows` numbers one after another for each column.
std::vector<float> Read(const Layout& layout, const void* data, std::int32_t batch) {
  const auto* first =
      static_cast<const char*>(data) + static_cast<std::size_t>(batch * layout.stride) * SizeOf(layout.type);
  std::vector<float> values(layout.rows * layout.columns);
  for (std::uint64_t column = 0; column < layout.columns; ++column) {
    const char* const from = first + column * static_cast<std::uint64_t>(layout.leading) * SizeOf(layout.type);
    CheckRange(from, layout.rows * SizeOf(layout.type), Access::kRead);
    for (std::uint64_t row = 0; row < layout.rows; ++row) {
      values[column * layout.rows + row] = Decoded(layout.type, from + row * SizeOf(layout.type));
    }
  }
  return values;
}

void Write(const Layout& layout, void* data, std::int32_t batch, const std::vector<float>& values) {
  auto* first = static_cast<char*>(data) + static_cast<std::size_t>(batch * layout.stride) * SizeOf(layout.type);
  for (std::uint64_t column = 0; column < layout.columns; ++column) {
    char* const to = first + column * static_cast<std::uint64_t>(layout.leading) * SizeOf(layout.type);
    CheckRange(to, layout.rows * SizeOf(layout.type), Access::kWrite);
    for (std::uint64_t row = 0; row < layout.rows; ++row) {
      Encode(layout.type, values[column * layout.rows + row], to + row * SizeOf(layout.type));
    }
  }
}

// With the ten bits of mantissa that TF32 has.
void RoundToTf32(std::vector<float>& values) {
  for (float& value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0x1000U) & ~0x1fffU;
    std::memcpy(&value, &bits, 4);
  }
}

float Gelu(float x) { return 0.5F * x * (1 + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x))); }

float GeluSlope(float x) {
  const float t = std::tanh(0.7978845608F * (x + 0.044715F * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * 0.7978845608F * (1 + 3 * 0.044715F * x * x);
}

struct Call {
  Product product;
  float alpha;
  float beta;
  const void* a;
  Layout a_layout;
  const void* b;
  Layout b_layout;
  const void* c;
  Layout c_layout;
  void* d;
};

// What follows the sums, in place.
void Finish(const Call& call, std::vector<float>& values) {
  const cublasLtEpilogue_t epilogue = call.product.epilogue;
  const std::uint64_t rows = call.c_layout.rows;
  const bool has_bias = epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if (has_bias) {
    const std::vector<float> bias =
        Read({.type = call.product.bias_type, .rows = rows, .columns = 1, .leading = static_cast<std::int64_t>(rows)},
             call.product.bias, 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += bias[i % rows];
    }
  }
  Layout auxiliary = call.c_layout;
  auxiliary.leading = call.product.auxiliary_leading;
  if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
    Write(auxiliary, call.product.auxiliary, 0, values);
    for (float& value : values) {
      value = Gelu(value);
    }
  } else if (epilogue == CUBLASLT_EPILOGUE_DGELU) {
    const std::vector<float> before = Read(auxiliary, call.product.auxiliary, 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= GeluSlope(before[i]);
    }
  }
}

void Multiply(const Call& call, Operation operation) {
  thread_local const std::unique_ptr<Device> cpu = MakeDevice({.kind = "cpu", .threads = 1});
  BeginOperation(std::move(operation), 1);
  const auto extent = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  for (std::int32_t batch = 0; batch < call.c_layout.batch; ++batch) {
    std::vector<float> a = Read(call.a_layout, call.a, batch);
    std::vector<float> b = Read(call.b_layout, call.b, batch);
    if (call.product.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
      RoundToTf32(a);
      RoundToTf32(b);
    }
    std::vector<float> sums(call.c_layout.rows * call.c_layout.columns);
    // Columns of the library's matrices are rows here: d^T = op(b)^T * op(a)^T.
    const auto tensor = [&](std::vector<float>& values, const Layout& layout) {
      return Tensor{values.data(), DType::kFloat32, {extent(layout.columns), extent(layout.rows)}};
    };
    cpu->ops().Matmul({.a = tensor(b, call.b_layout),
                       .b = tensor(a, call.a_layout),
                       .c = tensor(sums, call.c_layout),
                       .transpose_a = call.product.transpose_b == CUBLAS_OP_T,
                       .transpose_b = call.product.transpose_a == CUBLAS_OP_T});
    const bool scaled = call.product.scale_a != nullptr && call.product.scale_b != nullptr;
    if (scaled) {
      CheckRange(call.product.scale_a, 4, Access::kRead);
      CheckRange(call.product.scale_b, 4, Access::kRead);
    }
    const float factor = call.alpha * (scaled ? *call.product.scale_a * *call.product.scale_b : 1.0F);
    const std::vector<float> added = call.beta == 0 ? std::vector<float>() : Read(call.c_layout, call.c, batch);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = factor * sums[i] + (added.empty() ? 0 : call.beta * added[i]);
    }
    Finish(call, sums);
    Write(call.c_layout, call.d, batch, sums);
  }
}

template <typename T>
void Take(T& to, const void* value, std::size_t bytes) {
  std::memcpy(&to, value, std::min(sizeof(to), bytes));
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused by tests/cuda_on_cpu";
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{.type = type, .rows = rows, .columns = columns, .leading = leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete LayoutOf(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t bytes) {
  if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
    Take(LayoutOf(layout)->batch, value, bytes);
  } else if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) {
    Take(LayoutOf(layout)->stride, value, bytes);
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t /*scale*/) {
  *product = reinterpret_cast<cublasLtMatmulDesc_t>(new Product{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete ProductOf(product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  Product& product = *ProductOf(descriptor);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      Take(product.transpose_a, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      Take(product.transpose_b, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      Take(product.epilogue, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      Take(product.bias, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      Take(product.bias_type, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      Take(product.auxiliary, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      Take(product.auxiliary_leading, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      Take(product.scale_a, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      Take(product.scale_b, value, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t /*preference*/) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t /*preference*/,
                                                    cublasLtMatmulPreferenceAttributes_t /*name*/,
                                                    const void* /*value*/, std::size_t /*bytes*/) {
  return CUBLAS_STATUS_SUCCESS;
}

// Two algorithms, which do the same: what is chosen by measurement has a choice.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*product*/,
                                              cublasLtMatrixLayout_t /*a*/, cublasLtMatrixLayout_t /*b*/,
                                              cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
                                              cublasLtMatmulPreference_t /*preference*/, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = std::min(most, 2);
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].algo.data[0] = static_cast<std::uint64_t>(i + 1);
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t /*product*/,
                                       cublasLtMatrixLayout_t /*a*/, cublasLtMatrixLayout_t /*b*/,
                                       cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  return algorithm->data[0] == 1 || algorithm->data[0] == 2 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t /*name*/, void* value,
                                                    std::size_t bytes, std::size_t* /*written*/) {
  std::memcpy(value, algorithm->data, std::min(bytes, sizeof(int)));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t /*d_layout*/,
                              const cublasLtMatmulAlgo_t* /*algorithm*/, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  const auto lock = LockGpu();
  const Call call{*ProductOf(product),
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  a,
                  *LayoutOf(a_layout),
                  b,
                  *LayoutOf(b_layout),
                  c,
                  *LayoutOf(c_layout),
                  d};
  Put(StreamOf(stream), "cublasLtMatmul", [call, workspace, workspace_bytes](Operation operation) {
    Multiply(call, std::move(operation));
    // The library may write all of it; its ends stand for the rest.
    CheckRange(workspace, 4, Access::kWrite);
    CheckRange(static_cast<char*>(workspace) + workspace_bytes - 4, 4, Access::kWrite);
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
}  // namespace trireme::cuda_on_cpu
