#include <bit>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "device/cuda/attention.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/cudnn_plan.h"

namespace trireme {
namespace {

using Value = CudnnGraph::Value;

// Ids of what a plan is bound to.
enum Id : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kStatistics,
  kSlopes,
  kScale,
  kMinusInfinity,
  kOne,
  kGradOut,
  kGradQuery,
  kGradKey,
  kGradValue,
  kQuerySums,
};

cudnnDataType_t StoredType(const AttentionArgs& args) {
  return args.qkv.dtype == DType::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

// A graph under construction and the views that both passes use.
class Builder {
 public:
  explicit Builder(const AttentionArgs& args)
      : stored(StoredType(args)),
        b_(args.batch),
        t_(args.sequence),
        h_(args.heads),
        kv_(args.kv_heads),
        d_(args.head_size) {
    row_ = (h_ + 2 * kv_) * d_;
    if (args.slopes.given()) {
      slopes_ = graph.Real(kSlopes, CUDNN_DATA_FLOAT, {1, h_, 1, 1}, {h_, 1, 1, 1});
    }
    scale = graph.Scalar(kScale);
    minus_infinity_ = graph.Scalar(kMinusInfinity);
  }

  // Heads within packed rows, [B, heads, T, D].
  Value Packed(Id id, std::int64_t heads) {
    return graph.Real(id, stored, {b_, heads, t_, d_}, {t_ * row_, d_, row_, 1});
  }
  // The same as [B, heads, D, T]: cuDNN wants the second factor of a product so.
  Value PackedTransposed(Id id) { return graph.Real(id, stored, {b_, kv_, d_, t_}, {t_ * row_, d_, 1, row_}); }
  // Rows of all query heads and nothing else, [B, H, T, D].
  Value Rows(Id id) { return graph.Real(id, stored, {b_, h_, t_, d_}, {t_ * h_ * d_, d_, h_ * d_, 1}); }
  Value Statistics() { return graph.Real(kStatistics, CUDNN_DATA_FLOAT, PerRow(), DenseStrides(PerRow())); }
  Value NewPerRow() { return graph.Virtual(CUDNN_DATA_FLOAT, PerRow()); }
  Extents PerRow() const { return {b_, h_, t_, 1}; }
  Extents PerHead(std::int64_t heads) const { return {b_, heads, t_, d_}; }

  // scale * q.k, plus slope * column: that differs from the definition by a constant of each row.
  Value Scores(Value query, Value key_transposed) {
    Value score = graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Matmul(query, key_transposed), scale);
    if (slopes_ != nullptr) {
      const Value bias = graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Index(score, 3), slopes_);
      score = graph.Pointwise(CUDNN_POINTWISE_ADD, score, bias);
    }
    return score;
  }
  // The comparison must be this one: with its sides exchanged the numbers are right and no tile is skipped.
  Value Masked(Value score) {
    const Value row = graph.Index(score, 2);
    const Value column = graph.Index(score, 3);
    return graph.Select(graph.GreaterOrEqual(row, column), score, minus_infinity_);
  }
  // Key or value gradients: summed over the query heads of a group where there are several.
  void GroupProduct(Value left, Value right, Id id) {
    const Value gradient = Packed(id, kv_);
    if (h_ == kv_) {
      graph.Matmul(left, right, gradient);
    } else {
      const Value all_heads = graph.Virtual(stored, PerHead(h_));
      graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, graph.Matmul(left, right, all_heads), gradient);
    }
  }

  std::int64_t heads() const { return h_; }
  std::int64_t kv_heads() const { return kv_; }

  cudnnDataType_t stored;  // of tensors in memory, and of operands
  CudnnGraph graph;
  Value scale = nullptr;

 private:
  std::int64_t b_;
  std::int64_t t_;
  std::int64_t h_;
  std::int64_t kv_;
  std::int64_t d_;
  std::int64_t row_ = 0;
  Value slopes_ = nullptr;
  Value minus_infinity_ = nullptr;
};

std::optional<CudnnPlan> BuildForward(const AttentionArgs& args, cudnnHandle_t handle) {
  Builder build(args);
  CudnnGraph& graph = build.graph;
  const Value query = build.Packed(kQuery, build.heads());
  const Value key = build.PackedTransposed(kKey);
  const Value value = build.Packed(kValue, build.kv_heads());
  const Value score = build.Masked(build.Scores(query, key));
  const Value maximum = graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, score, build.NewPerRow());
  const Value exponential = graph.Pointwise(CUDNN_POINTWISE_EXP, graph.Pointwise(CUDNN_POINTWISE_SUB, score, maximum));
  const Value sum = graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, build.NewPerRow());
  const Value log_sum = graph.Pointwise(CUDNN_POINTWISE_LOG, sum);
  graph.Pointwise(CUDNN_POINTWISE_ADD, maximum, log_sum, build.Statistics());
  const Value probability = graph.Virtual(build.stored, score->extents);
  graph.Pointwise(CUDNN_POINTWISE_DIV, exponential, sum, probability);
  graph.Matmul(probability, value, build.Rows(kOut));
  return graph.Build(handle);
}

std::optional<CudnnPlan> BuildBackward(const AttentionArgs& args, bool deterministic, cudnnHandle_t handle) {
  Builder build(args);
  CudnnGraph& graph = build.graph;
  const Value query = build.Packed(kQuery, build.heads());
  const Value key = build.PackedTransposed(kKey);
  const Value value = build.PackedTransposed(kValue);
  const Value grad_out = build.Rows(kGradOut);
  // Without the multiplication by one the planner takes another path, whose results are NaN.
  const Value products = graph.Pointwise(CUDNN_POINTWISE_MUL, grad_out, build.Rows(kOut));
  const Value row_sum = graph.Pointwise(
      CUDNN_POINTWISE_MUL, graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, products, build.NewPerRow()), graph.Scalar(kOne));

  const Value score = graph.Pointwise(CUDNN_POINTWISE_SUB, build.Scores(query, key), build.Statistics());
  const Value probability = graph.Pointwise(CUDNN_POINTWISE_EXP, build.Masked(score));
  build.GroupProduct(graph.Transpose(probability, build.stored), grad_out, kGradValue);

  const Value centred = graph.Pointwise(CUDNN_POINTWISE_SUB, graph.Matmul(grad_out, value), row_sum);
  const Value grad_score =
      graph.Pointwise(CUDNN_POINTWISE_MUL, graph.Pointwise(CUDNN_POINTWISE_MUL, centred, probability), build.scale);
  build.GroupProduct(graph.Transpose(grad_score, build.stored), query, kGradKey);

  const Value grad_query = build.Packed(kGradQuery, build.heads());
  const Value key_rows = graph.Transpose(key, build.stored);
  if (deterministic) {
    graph.Matmul(grad_score, key_rows, grad_query);
  } else {
    const Extents extents = build.PerHead(build.heads());
    const Value sums = graph.Real(kQuerySums, CUDNN_DATA_FLOAT, extents, DenseStrides(extents));
    graph.Pointwise(CUDNN_POINTWISE_IDENTITY, graph.Matmul(grad_score, key_rows, sums), nullptr, grad_query);
  }
  return graph.Build(handle);
}

// Where heads begin within packed rows.
void* HeadAt(const Tensor& qkv, std::int64_t head, const AttentionArgs& args) {
  return qkv.as<char>() + head * args.head_size * SizeOf(qkv.dtype);
}

// A missing tensor counts as aligned.
bool IsAligned(const Tensor& t) { return std::bit_cast<std::uintptr_t>(t.data) % 16 == 0; }

}  // namespace

// Numbers of a plan's scalars lie beside it: cuDNN reads them at every run.
struct CudnnAttention::Plan {
  CudnnPlan plan;
  float scale = 1;
  float minus_infinity = -std::numeric_limits<float>::infinity();
  float one = 1;
};

CudnnAttention::CudnnAttention(CudaContext& context) : context_(context) {}

CudnnAttention::~CudnnAttention() {
  plans_.clear();
  if (handle_ != nullptr) {
    cudnnDestroy(handle_);
  }
}

bool CudnnAttention::Supports(const AttentionArgs& args) {
  constexpr std::int64_t kShortest = 16;
  constexpr std::int64_t kSmallestHead = 16;
  constexpr std::int64_t kLargestHead = 256;
  return args.qkv.dtype != DType::kFloat32 && !args.document_starts.given() && args.sequence >= kShortest &&
         args.head_size % 8 == 0 && args.head_size >= kSmallestHead && args.head_size <= kLargestHead &&
         IsAligned(args.qkv) && IsAligned(args.out) && IsAligned(args.statistics) && IsAligned(args.slopes) &&
         IsAligned(args.grad_out) && IsAligned(args.grad_qkv);
}

cudnnContext* CudnnAttention::Handle() {
  if (handle_ == nullptr) {
    CheckCudnn(cudnnCreate(&handle_), "open the library");
    CheckCudnn(cudnnSetStream(handle_, context_.stream()), "choose the stream");
  }
  return handle_;
}

CudnnAttention::Plan* CudnnAttention::PlanFor(const AttentionArgs& args, bool backward) {
  const Key key{args.batch,
                args.sequence,
                args.heads,
                args.kv_heads,
                args.head_size,
                args.slopes.given() ? 1 : 0,
                std::bit_cast<std::int32_t>(args.scale),
                backward ? 1 : 0,
                args.qkv.dtype == DType::kFloat16 ? 1 : 0};
  const auto found = plans_.find(key);
  if (found != plans_.end()) {
    return found->second.get();
  }
  std::optional<CudnnPlan> built =
      backward ? BuildBackward(args, context_.deterministic(), Handle()) : BuildForward(args, Handle());
  std::unique_ptr<Plan>& plan = plans_[key];
  if (built.has_value()) {
    plan.reset(new Plan{std::move(*built), args.scale});
  }
  return plan.get();
}

bool CudnnAttention::Forward(const AttentionArgs& args) {
  Plan* found = PlanFor(args, false);
  if (found == nullptr) {
    return false;
  }
  Plan& plan = *found;
  std::vector<CudnnBinding> bindings{{kQuery, HeadAt(args.qkv, 0, args)},
                                     {kKey, HeadAt(args.qkv, args.heads, args)},
                                     {kValue, HeadAt(args.qkv, args.heads + args.kv_heads, args)},
                                     {kOut, args.out.data},
                                     {kStatistics, args.statistics.data},
                                     {kScale, &plan.scale},
                                     {kMinusInfinity, &plan.minus_infinity}};
  if (args.slopes.given()) {
    bindings.push_back({kSlopes, args.slopes.data});
  }
  plan.plan.Execute(Handle(), bindings, context_.Scratch(plan.plan.workspace_bytes()));
  if (args.slopes.given()) {
    auto* statistics = args.statistics.as<float>();
    ShiftStatistics(context_, args, -1, statistics, statistics);
  }
  return true;
}

bool CudnnAttention::Backward(const AttentionArgs& args) {
  Plan* found = PlanFor(args, true);
  if (found == nullptr) {
    return false;
  }
  Plan& plan = *found;
  const std::int64_t rows = args.batch * args.heads * args.sequence;
  const std::int64_t sum_bytes = context_.deterministic() ? 0 : RoundUp(rows * args.head_size * 4, 256);
  const std::int64_t shifted_bytes = args.slopes.given() ? RoundUp(rows * 4, 256) : 0;
  auto* memory = static_cast<char*>(context_.Scratch(sum_bytes + shifted_bytes + plan.plan.workspace_bytes()));
  void* statistics = args.statistics.data;
  if (args.slopes.given()) {
    auto* shifted = reinterpret_cast<float*>(memory + sum_bytes);
    ShiftStatistics(context_, args, 1, args.statistics.as<float>(), shifted);
    statistics = shifted;
  }
  std::vector<CudnnBinding> bindings{{kQuery, HeadAt(args.qkv, 0, args)},
                                     {kKey, HeadAt(args.qkv, args.heads, args)},
                                     {kValue, HeadAt(args.qkv, args.heads + args.kv_heads, args)},
                                     {kOut, args.out.data},
                                     {kStatistics, statistics},
                                     {kGradOut, args.grad_out.data},
                                     {kGradQuery, HeadAt(args.grad_qkv, 0, args)},
                                     {kGradKey, HeadAt(args.grad_qkv, args.heads, args)},
                                     {kGradValue, HeadAt(args.grad_qkv, args.heads + args.kv_heads, args)},
                                     {kScale, &plan.scale},
                                     {kMinusInfinity, &plan.minus_infinity},
                                     {kOne, &plan.one}};
  if (!context_.deterministic()) {
    bindings.push_back({kQuerySums, memory});
  }
  if (args.slopes.given()) {
    bindings.push_back({kSlopes, args.slopes.data});
  }
  plan.plan.Execute(Handle(), bindings, memory + sum_bytes + shifted_bytes);
  return true;
}

}  // namespace trireme
