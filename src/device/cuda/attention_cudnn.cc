#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/shape.h"
#include "device/cuda/attention.h"
#include "device/cuda/attention_graph.h"
#include "device/cuda/attention_merge.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/cudnn_plan.h"

namespace trireme {
namespace {

// Where a head of a row begins.
char* HeadAt(const Tensor& rows, std::int64_t row, std::int64_t head, const AttentionArgs& args) {
  return rows.given() ? rows.as<char>() + (row * rows.shape[1] + head * args.head_size) * SizeOf(rows.dtype) : nullptr;
}

// A missing tensor counts as aligned.
bool IsAligned(const Tensor& t) { return std::bit_cast<std::uintptr_t>(t.data) % 16 == 0; }

AttentionBlock WholeSequence(const AttentionArgs& args) {
  return {.query = 0, .queries = args.sequence, .key = 0, .keys = args.sequence, .causal = true};
}

// fp32, of all queries.
std::int64_t QuerySumBytes(const AttentionArgs& args) { return RoundUp(args.out.count() * 4, 256); }
std::int64_t StatisticBytes(const AttentionArgs& args) { return RoundUp(args.statistics.bytes(), 256); }

ColumnRange AllQueries(const AttentionArgs& args, std::int64_t row_stride) {
  return {.batch = args.batch,
          .rows = args.sequence,
          .first_row = 0,
          .part_rows = args.sequence,
          .columns = args.heads * args.head_size,
          .row_stride = row_stride};
}

void Clear(const CudaContext& context, void* memory, std::int64_t bytes) {
  CheckCuda(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), context.stream()), "clear sums of attention");
}

}  // namespace

// Numbers of a plan's scalars lie beside it: cuDNN reads them at every run.
struct CudnnAttention::Plan {
  CudnnPlan plan;
  bool causal = true;
  float scale = 1;
  float minus_infinity = -std::numeric_limits<float>::infinity();
  float one = 1;
  float window = 0;
};

// Where the tensors of a block begin.
struct CudnnAttention::Pieces {
  Pieces(const AttentionArgs& args, const AttentionBlock& block)
      : query(HeadAt(args.qkv, block.query, 0, args)),
        out(HeadAt(args.out, block.query, 0, args)),
        grad_out(HeadAt(args.grad_out, block.query, 0, args)),
        grad_query(HeadAt(args.grad_qkv, block.query, 0, args)),
        statistics(args.statistics.data) {
    const Tensor& keys = args.kv.given() ? args.kv : args.qkv;
    const Tensor& grad_keys = args.kv.given() ? args.grad_kv : args.grad_qkv;
    const std::int64_t head = args.kv.given() ? 0 : args.heads;
    key = HeadAt(keys, block.key, head, args);
    value = HeadAt(keys, block.key, head + args.kv_heads, args);
    grad_key = HeadAt(grad_keys, block.key, head, args);
    grad_value = HeadAt(grad_keys, block.key, head + args.kv_heads, args);
  }

  void* query;
  void* out;
  void* grad_out;
  void* grad_query;
  void* statistics;  // of the block's rows, dense
  void* key;
  void* value;
  void* grad_key;
  void* grad_value;
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
  // Of chunks, statistics are merged before the shift that slopes want, and a window is not of one block alone.
  const bool windowed = args.window > 0 && (args.kv.given() || args.window < args.sequence);
  return args.cap == 0 && !(windowed && (args.kv.given() || args.slopes.given())) &&
         args.qkv.dtype != DType::kFloat32 && !args.document_starts.given() && args.chunk() >= kShortest &&
         !(args.kv.given() && args.slopes.given()) && args.head_size % 8 == 0 && args.head_size >= kSmallestHead &&
         args.head_size <= kLargestHead && IsAligned(args.qkv) && IsAligned(args.out) && IsAligned(args.statistics) &&
         IsAligned(args.slopes) && IsAligned(args.grad_out) && IsAligned(args.grad_qkv) && IsAligned(args.kv) &&
         IsAligned(args.grad_kv);
}

cudnnContext* CudnnAttention::Handle() {
  if (handle_ == nullptr) {
    CheckCudnn(cudnnCreate(&handle_), "open the library");
    CheckCudnn(cudnnSetStream(handle_, context_.stream()), "choose the stream");
  }
  return handle_;
}

CudnnAttention::Plan* CudnnAttention::PlanFor(const AttentionArgs& args, const AttentionBlock& block, bool backward) {
  const AttentionShape shape = AttentionShapeOf(args, block);
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
                static_cast<std::int64_t>(shape.stored),
                std::bit_cast<std::int32_t>(args.scale),
                backward ? 1 : 0};
  const auto found = plans_.find(key);
  if (found != plans_.end()) {
    return found->second.get();
  }
  std::optional<CudnnPlan> built = backward ? BuildAttentionBackward(shape, context_.deterministic(), Handle())
                                            : BuildAttentionForward(shape, Handle());
  std::unique_ptr<Plan>& plan = plans_[key];
  if (built.has_value()) {
    plan.reset(new Plan{.plan = std::move(*built),
                        .causal = shape.causal,
                        .scale = args.scale,
                        .window = static_cast<float>(shape.window)});
  }
  return plan.get();
}

void CudnnAttention::RunForward(Plan& plan, const AttentionArgs& args, const Pieces& pieces, void* workspace) {
  std::vector<CudnnBinding> bindings{{kQuery, pieces.query},           {kKey, pieces.key},
                                     {kValue, pieces.value},           {kOut, pieces.out},
                                     {kStatistics, pieces.statistics}, {kScale, &plan.scale}};
  if (plan.causal) {
    bindings.push_back({kMinusInfinity, &plan.minus_infinity});
  }
  if (plan.window > 0) {
    bindings.push_back({kWindow, &plan.window});
  }
  if (args.slopes.given()) {
    bindings.push_back({kSlopes, args.slopes.data});
  }
  plan.plan.Execute(Handle(), bindings, workspace);
}

void CudnnAttention::RunBackward(Plan& plan, const AttentionArgs& args, const Pieces& pieces, char* sums,
                                 void* workspace) {
  std::vector<CudnnBinding> bindings{{kQuery, pieces.query},
                                     {kKey, pieces.key},
                                     {kValue, pieces.value},
                                     {kOut, pieces.out},
                                     {kStatistics, pieces.statistics},
                                     {kGradOut, pieces.grad_out},
                                     {kGradQuery, pieces.grad_query},
                                     {kGradKey, pieces.grad_key},
                                     {kGradValue, pieces.grad_value},
                                     {kScale, &plan.scale},
                                     {kOne, &plan.one}};
  if (plan.causal) {
    bindings.push_back({kMinusInfinity, &plan.minus_infinity});
  }
  if (plan.window > 0) {
    bindings.push_back({kWindow, &plan.window});
  }
  if (!context_.deterministic()) {
    bindings.push_back({kQuerySums, sums});
  }
  if (args.slopes.given()) {
    bindings.push_back({kSlopes, args.slopes.data});
  }
  plan.plan.Execute(Handle(), bindings, workspace);
}

bool CudnnAttention::Forward(const AttentionArgs& args) {
  if (args.kv.given()) {
    return ForwardInBlocks(args);
  }
  const AttentionBlock whole = WholeSequence(args);
  Plan* plan = PlanFor(args, whole, false);
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
  const AttentionBlock whole = WholeSequence(args);
  Plan* plan = PlanFor(args, whole, true);
  if (plan == nullptr) {
    return false;
  }
  const std::int64_t sum_bytes = context_.deterministic() ? 0 : QuerySumBytes(args);
  const std::int64_t shifted_bytes = args.slopes.given() ? StatisticBytes(args) : 0;
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

std::vector<CudnnAttention::Plan*> CudnnAttention::PlansFor(const AttentionArgs& args,
                                                            const std::vector<AttentionBlock>& blocks, bool backward) {
  std::vector<Plan*> plans;
  for (const AttentionBlock& block : blocks) {
    plans.push_back(PlanFor(args, block, backward));
    if (plans.back() == nullptr) {
      return {};
    }
  }
  return plans;
}

std::int64_t CudnnAttention::WorkspaceOf(const std::vector<Plan*>& plans) {
  std::int64_t most = 0;
  for (const Plan* plan : plans) {
    most = std::max(most, plan->plan.workspace_bytes());
  }
  return most;
}

void CudnnAttention::CopyStatistics(const AttentionArgs& args, const AttentionBlock& block, float* part) {
  const auto bytes = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); };
  CheckCuda(
      cudaMemcpy2DAsync(part, bytes(block.queries), args.statistics.as<float>() + block.query, bytes(args.sequence),
                        bytes(block.queries), static_cast<std::size_t>(args.batch * args.heads),
                        cudaMemcpyDeviceToDevice, context_.stream()),
      "copy statistics of a block");
}

// Each block writes its rows of `out`, from where they are merged into fp32 sums; a single block of all queries is done
// with that.
bool CudnnAttention::ForwardInBlocks(const AttentionArgs& args) {
  const std::vector<AttentionBlock> blocks = AttentionBlocks(args);
  const std::vector<Plan*> plans = PlansFor(args, blocks, false);
  if (plans.empty()) {
    return false;
  }
  if (blocks.size() == 1 && blocks.front().queries == args.sequence) {
    RunForward(*plans.front(), args, {args, blocks.front()}, context_.Scratch(plans.front()->plan.workspace_bytes()));
    return true;
  }
  const std::int64_t sum_bytes = QuerySumBytes(args);
  const std::int64_t statistic_bytes = StatisticBytes(args);
  auto* memory = static_cast<char*>(context_.Scratch(sum_bytes + statistic_bytes + WorkspaceOf(plans)));
  auto* sums = reinterpret_cast<float*>(memory);
  auto* part_statistics = reinterpret_cast<float*>(memory + sum_bytes);
  Clear(context_, sums, sum_bytes);
  ClearStatistics(context_, args.statistics);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const AttentionBlock& block = blocks[i];
    Pieces pieces(args, block);
    pieces.statistics = part_statistics;
    RunForward(*plans[i], args, pieces, memory + sum_bytes + statistic_bytes);
    MergePart(context_,
              {.batch = args.batch,
               .heads = args.heads,
               .head_size = args.head_size,
               .rows = args.sequence,
               .first_row = block.query,
               .part_rows = block.queries,
               .out = sums,
               .statistics = args.statistics.as<float>(),
               .part_statistics = part_statistics},
              args.out);
  }
  StoreQuerySums(context_, AllQueries(args, args.out.shape[1]), sums, args.out);
  return true;
}

// Keys are in one block at most, queries in several: their gradients are added up in fp32.
bool CudnnAttention::BackwardInBlocks(const AttentionArgs& args) {
  const std::vector<AttentionBlock> blocks = AttentionBlocks(args);
  const std::vector<Plan*> plans = PlansFor(args, blocks, true);
  if (plans.empty()) {
    return false;
  }
  const bool single = blocks.size() == 1 && blocks.front().queries == args.sequence;
  const std::int64_t total_bytes = single ? 0 : QuerySumBytes(args);
  const std::int64_t sum_bytes = context_.deterministic() ? 0 : QuerySumBytes(args);
  const std::int64_t statistic_bytes = StatisticBytes(args);
  auto* memory = static_cast<char*>(context_.Scratch(total_bytes + sum_bytes + statistic_bytes + WorkspaceOf(plans)));
  auto* totals = reinterpret_cast<float*>(memory);
  auto* statistics = reinterpret_cast<float*>(memory + total_bytes + sum_bytes);
  if (!single) {
    Clear(context_, totals, total_bytes);
  }
  Clear(context_, args.grad_kv.data, args.grad_kv.bytes());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const AttentionBlock& block = blocks[i];
    Pieces pieces(args, block);
    if (block.queries < args.sequence) {
      CopyStatistics(args, block, statistics);
      pieces.statistics = statistics;
    }
    RunBackward(*plans[i], args, pieces, memory + total_bytes, memory + total_bytes + sum_bytes + statistic_bytes);
    if (!single) {
      ColumnRange range = AllQueries(args, args.qkv.shape[1]);
      range.first_row = block.query;
      range.part_rows = block.queries;
      AddToQuerySums(context_, range, totals, args.grad_qkv);
    }
  }
  if (!single) {
    StoreQuerySums(context_, AllQueries(args, args.qkv.shape[1]), totals, args.grad_qkv);
  }
  return true;
}

}  // namespace trireme
