#include "device/cuda/attention_unfused.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/matmul_plan.h"

namespace trireme {
namespace {

constexpr std::int64_t kProductWorkspace = std::int64_t{32} << 20;

// The largest power of two up to 256 that divides every address and stride.
std::int64_t AlignmentOf(const BatchedProduct& product) {
  std::uintptr_t bits = 256;
  for (const BatchedProduct::Matrix* matrix : {&product.a, &product.b, &product.c}) {
    bits |= std::bit_cast<std::uintptr_t>(matrix->data);
    bits |= static_cast<std::uintptr_t>(matrix->stride * SizeOf(product.dtype));
  }
  return std::int64_t{1} << std::countr_zero(bits);
}

void Describe(const BatchedProduct& product, const BatchedProduct::Matrix& matrix, std::int64_t rows,
              std::int64_t columns, MatrixLayout& layout) {
  layout.Set(product.dtype, matrix.transposed ? columns : rows, matrix.transposed ? rows : columns, matrix.row);
  layout.SetBatch(product.count, matrix.stride);
}

// The products of one attention, a query head of every key head at a time: product i of a call is of key head i.
class Heads {
 public:
  Heads(const AttentionArgs& args, std::int64_t batch, std::int64_t member)
      : args_(args),
        group_(args.heads / args.kv_heads),
        row_(batch * args.sequence),
        member_(member),
        batch_(batch),
        width_((args.heads + 2 * args.kv_heads) * args.head_size) {}

  BatchedProduct::Matrix Query(const Tensor& qkv) const { return Packed(qkv, member_, group_); }
  BatchedProduct::Matrix Key(const Tensor& qkv) const { return Packed(qkv, args_.heads, 1); }
  BatchedProduct::Matrix Value(const Tensor& qkv) const { return Packed(qkv, args_.heads + args_.kv_heads, 1); }
  BatchedProduct::Matrix Out(const Tensor& out) const {
    const std::int64_t width = args_.heads * args_.head_size;
    return {At(out, row_ * width + member_ * args_.head_size), width, group_ * args_.head_size};
  }
  BatchedProduct::Matrix Scores(const Tensor& scores) const {
    const std::int64_t pairs = args_.sequence * args_.sequence;
    return {At(scores, (batch_ * args_.heads + member_) * pairs), args_.sequence, group_ * pairs};
  }
  // [T, T] of two [T, D].
  BatchedProduct Pairs(const BatchedProduct::Matrix& a, BatchedProduct::Matrix b, const BatchedProduct::Matrix& c,
                       float alpha) const {
    b.transposed = true;
    return {args_.qkv.dtype, args_.sequence, args_.sequence, args_.head_size, args_.kv_heads, a, b, c, alpha, false};
  }
  // [T, D] of [T, T] and [T, D].
  BatchedProduct Sums(const BatchedProduct::Matrix& a, const BatchedProduct::Matrix& b, const BatchedProduct::Matrix& c,
                      bool accumulate) const {
    return {args_.qkv.dtype, args_.sequence, args_.head_size, args_.sequence, args_.kv_heads, a, b, c, 1, accumulate};
  }

 private:
  static void* At(const Tensor& tensor, std::int64_t element) {
    return tensor.as<char>() + element * SizeOf(tensor.dtype);
  }
  BatchedProduct::Matrix Packed(const Tensor& qkv, std::int64_t head, std::int64_t apart) const {
    return {At(qkv, row_ * width_ + head * args_.head_size), width_, apart * args_.head_size};
  }

  const AttentionArgs& args_;
  std::int64_t group_;
  std::int64_t row_;
  std::int64_t member_;
  std::int64_t batch_;
  std::int64_t width_;
};

template <typename Function>
void ForEachHeads(const AttentionArgs& args, const Function& function) {
  for (std::int64_t batch = 0; batch < args.batch; ++batch) {
    for (std::int64_t member = 0; member < args.heads / args.kv_heads; ++member) {
      function(Heads(args, batch, member), member > 0);
    }
  }
}

BatchedProduct::Matrix Transposed(BatchedProduct::Matrix matrix) {
  matrix.transposed = true;
  return matrix;
}

}  // namespace

struct UnfusedAttention::Plan {
  ~Plan() {
    if (product != nullptr) {
      cublasLtMatmulDescDestroy(product);
    }
  }
  cublasLtMatmulDesc_t product = nullptr;
  MatrixLayout a;
  MatrixLayout b;
  MatrixLayout c;
  cublasLtMatmulAlgo_t algorithm{};
};

UnfusedAttention::UnfusedAttention(CudaContext& context) : context_(context) {
  CheckCublas(cublasLtCreate(&handle_), "open the library");
}

UnfusedAttention::~UnfusedAttention() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

// c^T = op(b)^T * op(a)^T in column-major terms.
const UnfusedAttention::Plan& UnfusedAttention::PlanFor(const BatchedProduct& product) {
  const std::int64_t flags = (product.a.transposed ? 1 : 0) | (product.b.transposed ? 2 : 0);
  const Key key{product.rows,
                product.columns,
                product.depth,
                product.count,
                product.a.row,
                product.a.stride,
                product.b.row,
                product.b.stride,
                product.c.row,
                product.c.stride,
                8 * static_cast<std::int64_t>(product.dtype) + flags,
                AlignmentOf(product)};
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan != nullptr) {
    return *plan;
  }
  auto made = std::make_unique<Plan>();
  const bool tf32 = context_.tf32() && product.dtype == DType::kFloat32;
  CheckCublas(
      cublasLtMatmulDescCreate(&made->product, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "describe a product");
  const cublasOperation_t first = product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  CheckCublas(cublasLtMatmulDescSetAttribute(made->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)),
              "describe a product");
  CheckCublas(cublasLtMatmulDescSetAttribute(made->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)),
              "describe a product");
  Describe(product, product.a, product.rows, product.depth, made->a);
  Describe(product, product.b, product.depth, product.columns, made->b);
  Describe(product, product.c, product.rows, product.columns, made->c);
  cublasLtMatmulPreference_t preference = nullptr;
  CheckCublas(cublasLtMatmulPreferenceCreate(&preference), "state a preference");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    CheckCublas(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)), "state a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kProductWorkspace));
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(name, static_cast<std::uint32_t>(key.back()));
  }
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, made->product, made->b.get(), made->a.get(), made->c.get(), made->c.get(),
                                     preference, 1, &result, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  Require(status == CUBLAS_STATUS_SUCCESS && count == 1,
          "cuBLASLt has no algorithm for {} products of {} x {} over {} in {}; set train.attention = \"flash\"",
          product.count, product.rows, product.columns, product.depth, Name(product.dtype));
  made->algorithm = result.algo;
  plan = std::move(made);
  return *plan;
}

void UnfusedAttention::Multiply(const BatchedProduct& product) {
  const Plan& plan = PlanFor(product);
  const float beta = product.accumulate ? 1.0F : 0.0F;
  CheckCublas(cublasLtMatmul(handle_, plan.product, &product.alpha, product.b.data, plan.b.get(), product.a.data,
                             plan.a.get(), &beta, product.c.data, plan.c.get(), product.c.data, plan.c.get(),
                             &plan.algorithm, context_.Scratch(kProductWorkspace),
                             static_cast<std::size_t>(kProductWorkspace), context_.stream()),
              "multiply");
}

void UnfusedAttention::Forward(const AttentionArgs& args) {
  ForEachHeads(args, [&](const Heads& heads, bool) {
    Multiply(heads.Pairs(heads.Query(args.qkv), heads.Key(args.qkv), heads.Scores(args.weights), args.scale));
  });
  SoftmaxScores(context_, args);
  const Tensor& used = args.dropout.probability > 0 ? args.scores : args.weights;
  ForEachHeads(args, [&](const Heads& heads, bool) {
    Multiply(heads.Sums(heads.Scores(used), heads.Value(args.qkv), heads.Out(args.out), false));
  });
}

void UnfusedAttention::Backward(const AttentionArgs& args) {
  const bool drops = args.dropout.probability > 0;
  if (drops) {
    DropWeights(context_, args);
  }
  const Tensor& used = drops ? args.scores : args.weights;
  ForEachHeads(args, [&](const Heads& heads, bool again) {
    Multiply(heads.Sums(Transposed(heads.Scores(used)), heads.Out(args.grad_out), heads.Value(args.grad_qkv), again));
  });
  ForEachHeads(args, [&](const Heads& heads, bool) {
    Multiply(heads.Pairs(heads.Out(args.grad_out), heads.Value(args.qkv), heads.Scores(args.scores), 1));
  });
  SoftmaxGradients(context_, args);
  ForEachHeads(args, [&](const Heads& heads, bool again) {
    const BatchedProduct::Matrix scores = heads.Scores(args.scores);
    Multiply(heads.Sums(scores, heads.Key(args.qkv), heads.Query(args.grad_qkv), false));
    Multiply(heads.Sums(Transposed(scores), heads.Query(args.qkv), heads.Key(args.grad_qkv), again));
  });
}

}  // namespace trireme
