#include "device/cuda/matmul_cublaslt.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "base/error.h"
#include "device/cuda/clear_memory.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/matmul_plan.h"

namespace trireme {
namespace {

// Widths such as 1600 divide into few of the library's tiles: the best of its candidates may be far down its list.
constexpr int kMostCandidates = 24;
// A candidate is timed this often, and no more once that has taken so long: a long product tells in one run.
constexpr int kTimedRuns = 3;
constexpr float kMostTimedMilliseconds = 20;
// The library ranks its candidates: a later one must be faster than those before it by more than noise.
constexpr float kClearlyFaster = 0.98F;

cudaDataType_t LibraryType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kFloat8E4M3:
      return CUDA_R_8F_E4M3;
    case DType::kFloat8E5M2:
      return CUDA_R_8F_E5M2;
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kUInt16:
      break;
  }
  RefuseType(dtype, "Matmul");
}

// Whether the library's epilogue may do what `args` asks for. In fp32 its gelu is not exact enough.
bool IsLibraryEpilogue(const MatmulArgs& args) {
  if (args.epilogue == Epilogue::kNone || args.epilogue == Epilogue::kResidual) {
    return !args.bias.given() || args.c.dtype == args.bias.dtype;
  }
  if (args.epilogue == Epilogue::kGeluGradient && IsFloat8(args.a.dtype)) {
    return false;  // the library would do it in a pass of its own, four times as long as ours
  }
  constexpr std::int64_t kAuxiliaryUnit = 8;
  const bool half = args.c.dtype == DType::kBFloat16 || args.c.dtype == DType::kFloat16;
  return half && args.a.dtype != DType::kFloat32 && args.c.shape[1] % kAuxiliaryUnit == 0 &&
         std::bit_cast<std::uintptr_t>(args.auxiliary.data) % 16 == 0;
}

cublasLtEpilogue_t LibraryEpilogue(const MatmulArgs& args) {
  switch (args.epilogue) {
    case Epilogue::kNone:
    case Epilogue::kResidual:  // it is the library's C, the result its D
      return args.bias.given() ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kGelu:
      return args.bias.given() ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// An auxiliary tensor that the library calls so.
bool HasGelu(const MatmulArgs& args) {
  return args.epilogue == Epilogue::kGelu || args.epilogue == Epilogue::kGeluGradient;
}

// Whether a trial may write to c and the auxiliary tensor.
bool WritesNoOperand(const MatmulArgs& args) {
  const auto read = [&](const Tensor& t) { return t.data == args.a.data || t.data == args.b.data; };
  return !read(args.c) && !read(args.auxiliary) && args.c.data != args.auxiliary.data;
}

// The largest power of two up to 256 that divides every address.
std::int64_t CommonAlignment(const MatmulArgs& args) {
  std::uintptr_t bits = 256;
  for (const Tensor* t : {&args.a, &args.b, &args.c, &args.bias, &args.auxiliary}) {
    bits |= std::bit_cast<std::uintptr_t>(t->data);
  }
  return std::int64_t{1} << std::countr_zero(bits);
}

void RequireFloat8(const CudaContext& context) {
  constexpr int kFirstWithFloat8 = 89;
  Require(context.capability() >= kFirstWithFloat8,
          "fp8 products need a GPU of compute capability 8.9 or more, this one has {}.{}; train.dtype = \"bf16\" works",
          context.capability() / 10, context.capability() % 10);
}

template <typename Value>
void SetAttribute(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t name, const Value& value) {
  CheckCublas(cublasLtMatmulDescSetAttribute(descriptor, name, &value, sizeof(value)), "describe a product");
}

}  // namespace

void MatrixLayout::Set(const Tensor& matrix) { Set(matrix.dtype, matrix.shape[0], matrix.shape[1], matrix.shape[1]); }

void MatrixLayout::Set(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t row) {
  CheckCublas(cublasLtMatrixLayoutCreate(&layout_, LibraryType(dtype), static_cast<std::uint64_t>(columns),
                                         static_cast<std::uint64_t>(rows), row),
              "describe a matrix");
}

void MatrixLayout::SetBatch(std::int64_t count, std::int64_t stride) {
  const auto matrices = static_cast<std::int32_t>(count);
  CheckCublas(
      cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices, sizeof(matrices)),
      "describe a matrix");
  CheckCublas(
      cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
      "describe a matrix");
}

CublasLtMatmul::CublasLtMatmul(CudaContext& context) : context_(context) {
  CheckCublas(cublasLtCreate(&handle_), "open the library");
}

CublasLtMatmul::~CublasLtMatmul() {
  plans_.clear();
  first_choices_.clear();
  cublasLtDestroy(handle_);
}

bool CublasLtMatmul::Run(const MatmulArgs& args) {
  if (!IsLibraryEpilogue(args)) {
    return false;
  }
  const Plan& plan = PlanFor(args);
  if (!plan.possible) {
    return false;
  }
  CheckCublas(Execute(args, plan, plan.algorithm, args.c.data), "multiply");
  return true;
}

void CublasLtMatmul::RunPlain(const MatmulArgs& args) {
  if (!Run(args)) {
    Fail("cuBLASLt: no algorithm for a product of {} {} and {} {} into {} {}", Name(args.a.dtype),
         args.a.shape.ToString(), Name(args.b.dtype), args.b.shape.ToString(), Name(args.c.dtype),
         args.c.shape.ToString());
  }
}

CublasLtMatmul::Key CublasLtMatmul::KeyOf(const MatmulArgs& args) {
  const std::int64_t flags = (args.transpose_a ? 1 : 0) | (args.transpose_b ? 2 : 0) | (args.accumulate ? 4 : 0) |
                             (args.bias.given() ? 8 : 0) | (args.equal_on_ranks ? 16 : 0);
  return {args.a.shape[0],
          args.a.shape[1],
          args.b.shape[0],
          args.b.shape[1],
          flags,
          static_cast<std::int64_t>(args.a.dtype),
          static_cast<std::int64_t>(args.b.dtype),
          static_cast<std::int64_t>(args.c.dtype),
          static_cast<std::int64_t>(args.epilogue),
          CommonAlignment(args)};
}

// c^T = op(b)^T * op(a)^T in column-major terms: b comes first, and an operand is transposed exactly when it is here.
void CublasLtMatmul::Describe(const MatmulArgs& args, Plan& plan) const {
  const bool tf32 = context_.tf32() && args.a.dtype == DType::kFloat32;
  CheckCublas(
      cublasLtMatmulDescCreate(&plan.product, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "describe a product");
  if (IsFloat8(args.a.dtype)) {
    RequireFloat8(context_);
    // Sums of gradients are long and cancel: they get the tensor cores' slower, more exact addition.
    const bool gradient = args.a.dtype == DType::kFloat8E5M2 || args.b.dtype == DType::kFloat8E5M2;
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(gradient ? 0 : 1));
  }
  const cublasOperation_t first = args.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = args.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, first);
  SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, second);
  SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, LibraryEpilogue(args));
  if (HasGelu(args)) {
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, args.c.shape[1]);
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.auxiliary.data);
  }
  if (args.bias.given()) {
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, LibraryType(args.bias.dtype));
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias.data);
  }
  plan.a.Set(args.a);
  plan.b.Set(args.b);
  plan.c.Set(args.c);
}

const CublasLtMatmul::Plan& CublasLtMatmul::PlanFor(const MatmulArgs& args) {
  const Key key = KeyOf(args);
  if (args.equal_on_ranks) {
    return FirstChoiceFor(args, key);
  }
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan == nullptr) {
    auto made = std::make_unique<Plan>();
    Describe(args, *made);
    if (!Recall(key, *made)) {
      Choose(args, key, *made);
    }
    plan = std::move(made);
  }
  return *plan;
}

const CublasLtMatmul::Plan& CublasLtMatmul::FirstChoiceFor(const MatmulArgs& args, const Key& key) {
  constexpr std::size_t kMostKept = 16384;
  const auto found = first_choices_.find(key);
  if (found != first_choices_.end()) {
    return *found->second;
  }
  auto made = std::make_unique<Plan>();
  Describe(args, *made);
  Choose(args, key, *made);
  if (first_choices_.size() >= kMostKept) {
    first_choices_.clear();
  }
  return *first_choices_.emplace(key, std::move(made)).first->second;
}

void CublasLtMatmul::Choose(const MatmulArgs& args, const Key& key, Plan& plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  CheckCublas(cublasLtMatmulPreferenceCreate(&preference), "state a preference");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    CheckCublas(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)), "state a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(name, static_cast<std::uint32_t>(key.back()));
  }
  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> results{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan.product, plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(),
                                     preference, kMostCandidates, results.data(), &count);
  cublasLtMatmulPreferenceDestroy(preference);
  plan.possible = status == CUBLAS_STATUS_SUCCESS && count > 0 && results[0].state == CUBLAS_STATUS_SUCCESS;
  if (plan.possible) {
    plan.algorithm = results[0].algo;
    if (!context_.deterministic() && !args.equal_on_ranks && count > 1) {
      Measure(args, plan, results.data(), count);
    }
    // Some shapes have one slow algorithm with an activation function: a pass of our own then takes less time.
    const bool may_measure = !context_.deterministic() && !args.equal_on_ranks && WritesNoOperand(args);
    if (HasGelu(args) && plan.possible && may_measure) {
      const float together = TimeOf(args, plan);
      plan.possible = plan.possible && together <= TimeApart(args);
    }
  }
}

// Trial runs may overwrite c only where the real run will do so without having read it, directly or as another operand.
void CublasLtMatmul::Measure(const MatmulArgs& args, Plan& plan, const cublasLtMatmulHeuristicResult_t* results,
                             int count) {
  const bool c_is_read =
      args.accumulate || args.c.data == args.a.data || args.c.data == args.b.data || args.c.data == args.auxiliary.data;
  void* c = args.c.data;
  if (c_is_read) {
    if (cudaMallocAsync(&c, static_cast<std::size_t>(args.c.bytes()), context_.stream()) != cudaSuccess) {
      cudaGetLastError();  // too little memory to measure: the first choice stays
      return;
    }
    ClearMemory(context_, c, args.c.bytes());
  }
  float best = -1;
  for (int i = 0; i < count; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) {
      continue;
    }
    const float time = Time(args, plan, results[i].algo, c);
    if (time >= 0 && (best < 0 || time < best * kClearlyFaster)) {
      best = time;
      plan.algorithm = results[i].algo;
    }
  }
  plan.possible = best >= 0;
  plan.milliseconds = std::max(best, 0.0F);
  if (c_is_read) {
    context_.FreeInOrder(c);
  }
}

float CublasLtMatmul::TimeOf(const MatmulArgs& args, Plan& plan) {
  if (plan.milliseconds == 0) {  // a single candidate was not measured
    const float time = Time(args, plan, plan.algorithm, args.c.data);
    plan.possible = time >= 0;
    plan.milliseconds = std::max(time, 0.0F);
  }
  return plan.possible ? plan.milliseconds : std::numeric_limits<float>::infinity();
}

float CublasLtMatmul::TimeApart(const MatmulArgs& args) {
  const bool forward = args.epilogue == Epilogue::kGelu;
  MatmulArgs product = args;
  product.epilogue = Epilogue::kNone;
  product.auxiliary = {};
  product.c = forward ? args.auxiliary : args.c;
  PlanFor(product);
  Plan& plain = *plans_.at(KeyOf(product));
  if (!plain.possible) {
    return std::numeric_limits<float>::infinity();
  }
  // What follows in forward reads one tensor and writes one; the gradient's pass reads two.
  MatmulArgs pass = args;
  pass.epilogue = Epilogue::kGeluGradient;
  pass.bias = {};
  const float rest = FastestRun([&] { FinishProduct(context_, pass); });
  return TimeOf(product, plain) + (forward ? rest * 2 / 3 : rest);
}

float CublasLtMatmul::Time(const MatmulArgs& args, Plan& plan, const cublasLtMatmulAlgo_t& algorithm, void* c) {
  // The first run loads the kernel.
  if (Execute(args, plan, algorithm, c) != CUBLAS_STATUS_SUCCESS) {
    return -1;
  }
  return FastestRun([&] { CheckCublas(Execute(args, plan, algorithm, c), "measure a product"); });
}

float CublasLtMatmul::FastestRun(const std::function<void()>& work) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  CheckCuda(cudaEventCreate(&begin), "make an event");
  CheckCuda(cudaEventCreate(&end), "make an event");
  float best = -1;
  float total = 0;
  for (int run = 0; run < kTimedRuns && total < kMostTimedMilliseconds; ++run) {
    CheckCuda(cudaEventRecord(begin, context_.stream()), "record an event");
    work();
    CheckCuda(cudaEventRecord(end, context_.stream()), "record an event");
    CheckCuda(cudaEventSynchronize(end), "measure a product");
    float time = 0;
    CheckCuda(cudaEventElapsedTime(&time, begin, end), "measure a product");
    best = best < 0 ? time : std::min(best, time);
    total += time;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}

cublasStatus_t CublasLtMatmul::Execute(const MatmulArgs& args, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                                       void* c) {
  if (args.bias.given()) {
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias.data);
  }
  if (HasGelu(args)) {
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.auxiliary.data);
  }
  if (args.scale_a.given()) {
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, args.scale_b.data);
    SetAttribute(plan.product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, args.scale_a.data);
  }
  const float alpha = 1;
  const bool residual = args.epilogue == Epilogue::kResidual;
  const float beta = args.accumulate || residual ? 1.0F : 0.0F;
  const void* added = residual ? args.auxiliary.data : c;
  return cublasLtMatmul(handle_, plan.product, &alpha, args.b.data, plan.b.get(), args.a.data, plan.a.get(), &beta,
                        added, plan.c.get(), c, plan.c.get(), &algorithm, context_.Scratch(kWorkspaceBytes),
                        static_cast<std::size_t>(kWorkspaceBytes), context_.stream());
}

}  // namespace trireme
