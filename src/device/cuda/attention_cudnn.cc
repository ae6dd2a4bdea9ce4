#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/cuda/attention_plan.h"
#include "device/cuda/cuda_ops.h"
#include "device/cudnn_version.h"

namespace trireme {
namespace {

// Where a head of a row begins.
char* HeadAt(const Tensor& rows, std::int64_t row, std::int64_t head, const AttentionArgs& args) {
  return rows.given() ? rows.as<char>() + (row * rows.shape[1] + head * args.head_size) * SizeOf(rows.dtype) : nullptr;
}

// A missing tensor counts as aligned.
bool IsAligned(const Tensor& t) { return std::bit_cast<std::uintptr_t>(t.data) % 16 == 0; }

// Scratch of causal attention without anything else, but for cuDNN's workspace: fp32 sums of the queries' gradients.
std::int64_t CausalBytes(const CudaContext& context, const AttentionArgs& args, bool backward) {
  return backward && !context.deterministic() ? QuerySumBytes(args) : 0;
}

}  // namespace

CudnnAttention::Pieces::Pieces(const AttentionArgs& args, const AttentionBlock& block)
    : query(HeadAt(args.qkv, block.query, 0, args)),
      out(HeadAt(args.out, block.query, 0, args)),
      grad_out(HeadAt(args.grad_out, block.query, 0, args)),
      grad_query(HeadAt(args.grad_qkv, block.query, 0, args)),
      statistics(args.statistics.data),
      document_starts(args.document_starts.data) {
  const Tensor& keys = args.kv.given() ? args.kv : args.qkv;
  const Tensor& grad_keys = args.kv.given() ? args.grad_kv : args.grad_qkv;
  const std::int64_t head = args.kv.given() ? 0 : args.heads;
  key = HeadAt(keys, block.key, head, args);
  value = HeadAt(keys, block.key, head + args.kv_heads, args);
  grad_key = HeadAt(grad_keys, block.key, head, args);
  grad_value = HeadAt(grad_keys, block.key, head + args.kv_heads, args);
}

void CudnnAttention::Plan::BindScores(const AttentionArgs& args, const Pieces& pieces,
                                      std::vector<CudnnBinding>& bindings) {
  bindings.push_back({kScale, &scale});
  if (causal) {
    bindings.push_back({kMinusInfinity, &minus_infinity});
  }
  if (window > 0) {
    bindings.push_back({kWindow, &window});
  }
  if (cap > 0) {
    bindings.push_back({kCap, &cap});
  }
  if (args.document_starts.given()) {
    bindings.push_back({kHidden, &hidden});
    bindings.push_back({kDocumentStarts, pieces.document_starts});
  }
  if (args.slopes.given()) {
    bindings.push_back({kSlopes, args.slopes.data});
  }
  bindings.insert(bindings.end(), pieces.others.begin(), pieces.others.end());
}

CudnnAttention::CudnnAttention(CudaContext& context)
    : context_(context), new_enough_(CudnnDoesAttention(LoadedVersion())) {}

CudnnAttention::~CudnnAttention() {
  plans_.clear();
  if (handle_ != nullptr) {
    cudnnDestroy(handle_);
  }
}

std::int64_t CudnnAttention::LoadedVersion() { return static_cast<std::int64_t>(cudnnGetVersion()); }

bool CudnnAttention::Supports(const AttentionArgs& args) const {
  constexpr std::int64_t kShortest = 16;
  constexpr std::int64_t kSmallestHead = 16;
  constexpr std::int64_t kLargestHead = 256;
  // In chunks, statistics are merged before the shift that slopes want, and neither a window nor a document is of one
  // block alone; caps go with windows. Slopes are added but for a constant of each row, which a cap does not let
  // through.
  const bool windowed = args.window > 0 && (args.kv.given() || args.window < args.sequence);
  const bool capped = args.cap > 0;
  const bool featured = windowed || capped || args.slopes.given() || args.document_starts.given();
  return new_enough_ && args.qkv.dtype != DType::kFloat32 && !(args.kv.given() && featured) &&
         !(args.slopes.given() && (windowed || capped)) && args.chunk() >= kShortest && args.head_size % 8 == 0 &&
         args.head_size >= kSmallestHead && args.head_size <= kLargestHead && IsAligned(args.qkv) &&
         IsAligned(args.out) && IsAligned(args.statistics) && IsAligned(args.slopes) &&
         IsAligned(args.document_starts) && IsAligned(args.grad_out) && IsAligned(args.grad_qkv) &&
         IsAligned(args.kv) && IsAligned(args.grad_kv);
}

cudnnContext* CudnnAttention::Handle() {
  if (handle_ == nullptr) {
    CheckCudnn(cudnnCreate(&handle_), "open the library");
    CheckCudnn(cudnnSetStream(handle_, context_.stream()), "choose the stream");
  }
  return handle_;
}

// Documents and caps are computed by kernels that cuDNN composes, which it does from Hopper on. Their scratch is in no
// memory plan, and the plain kernels do the same in little memory: they go on where cuDNN would take much more than
// causal attention does, which adds up fp32 sums too, or more than is free.
std::optional<CudnnPlan> CudnnAttention::Build(const AttentionArgs& args, const AttentionShape& shape, bool backward,
                                               std::int64_t beside) {
  constexpr int kHopper = 90;
  constexpr std::int64_t kMostScratch = std::int64_t{1} << 30;
  const bool composed = shape.documents || shape.capped;
  if (composed && context_.capability() < kHopper) {
    return std::nullopt;
  }
  cudnnContext* const handle = Handle();
  std::optional<CudnnPlan> built;
  try {
    built = backward ? BuildAttentionBackward(shape, context_.deterministic(), handle)
                     : BuildAttentionForward(shape, handle);
  } catch (const CudnnUnsupported&) {
    if (!composed) {
      throw;
    }
    return std::nullopt;
  }
  if (composed && built.has_value()) {
    const std::int64_t scratch = beside + built->workspace_bytes();
    if (scratch - CausalBytes(context_, args, backward) > kMostScratch || !context_.HasRoomForScratch(scratch)) {
      return std::nullopt;
    }
  }
  return built;
}

CudnnAttention::Plan* CudnnAttention::PlanFor(const AttentionArgs& args, const AttentionShape& shape, bool backward,
                                              std::int64_t beside) {
  const Key key{shape.batch,
                shape.queries,
                shape.keys,
                shape.heads,
                shape.kv_heads,
                shape.head_size,
                shape.query_sequence,
                shape.query_row,
                shape.key_sequence,
                shape.key_row,
                shape.out_sequence,
                shape.out_row,
                shape.causal ? 1 : 0,
                shape.slopes ? 1 : 0,
                shape.window,
                shape.documents ? 1 : 0,
                shape.segments ? 1 : 0,
                std::bit_cast<std::int32_t>(args.cap),
                static_cast<std::int64_t>(shape.stored),
                std::bit_cast<std::int32_t>(args.scale),
                backward ? 1 : 0};
  const auto found = plans_.find(key);
  if (found != plans_.end()) {
    return found->second.get();
  }
  std::optional<CudnnPlan> built = Build(args, shape, backward, beside);
  std::unique_ptr<Plan> plan;
  if (built.has_value()) {
    plan.reset(new Plan{.plan = std::move(*built),
                        .causal = shape.causal,
                        .scale = args.scale,
                        .window = static_cast<float>(shape.window),
                        .cap = args.cap});
  }
  return plans_.emplace(key, std::move(plan)).first->second.get();
}

void CudnnAttention::RunForward(Plan& plan, const AttentionArgs& args, const Pieces& pieces, void* workspace) {
  std::vector<CudnnBinding> bindings{{kQuery, pieces.query},
                                     {kKey, pieces.key},
                                     {kValue, pieces.value},
                                     {kOut, pieces.out},
                                     {kStatistics, pieces.statistics}};
  plan.BindScores(args, pieces, bindings);
  plan.plan.Execute(Handle(), bindings, workspace);
}

void CudnnAttention::RunBackward(Plan& plan, const AttentionArgs& args, const Pieces& pieces, char* sums,
                                 void* workspace) {
  std::vector<CudnnBinding> bindings{{kQuery, pieces.query},           {kKey, pieces.key},
                                     {kValue, pieces.value},           {kOut, pieces.out},
                                     {kStatistics, pieces.statistics}, {kGradOut, pieces.grad_out},
                                     {kGradQuery, pieces.grad_query},  {kGradKey, pieces.grad_key},
                                     {kGradValue, pieces.grad_value},  {kOne, &plan.one}};
  if (!context_.deterministic()) {
    bindings.push_back({kQuerySums, sums});
  }
  plan.BindScores(args, pieces, bindings);
  plan.plan.Execute(Handle(), bindings, workspace);
}

bool CudnnAttention::Forward(const AttentionArgs& args) {
  if (args.kv.given()) {
    return ForwardInBlocks(args);
  }
  if (ForwardInSegments(args)) {
    return true;
  }
  const AttentionBlock whole = WholeSequence(args);
  Plan* plan = PlanFor(args, AttentionShapeOf(args), false, 0);
  if (plan == nullptr) {
    return false;
  }
  RunForward(*plan, args, {args, whole}, context_.Scratch(plan->plan.workspace_bytes()));
  if (args.slopes.given()) {
    auto* statistics = args.statistics.as<float>();
    ShiftStatistics(context_, args, -1, statistics, statistics);
  }
  return true;
}

bool CudnnAttention::Backward(const AttentionArgs& args) {
  if (args.kv.given()) {
    return BackwardInBlocks(args);
  }
  if (BackwardInSegments(args)) {
    return true;
  }
  const AttentionBlock whole = WholeSequence(args);
  const std::int64_t sum_bytes = CausalBytes(context_, args, true);
  const std::int64_t shifted_bytes = args.slopes.given() ? StatisticBytes(args) : 0;
  Plan* plan = PlanFor(args, AttentionShapeOf(args), true, sum_bytes + shifted_bytes);
  if (plan == nullptr) {
    return false;
  }
  auto* memory = static_cast<char*>(context_.Scratch(sum_bytes + shifted_bytes + plan->plan.workspace_bytes()));
  Pieces pieces(args, whole);
  if (args.slopes.given()) {
    auto* shifted = reinterpret_cast<float*>(memory + sum_bytes);
    ShiftStatistics(context_, args, 1, args.statistics.as<float>(), shifted);
    pieces.statistics = shifted;
  }
  RunBackward(*plan, args, pieces, memory, memory + sum_bytes + shifted_bytes);
  return true;
}

}  // namespace trireme
