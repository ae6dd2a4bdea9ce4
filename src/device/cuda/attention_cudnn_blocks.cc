#include <algorithm>
#include <vector>

#include "device/cuda/attention_merge.h"
#include "device/cuda/attention_plan.h"
#include "device/cuda/clear_memory.h"
#include "device/cuda/cuda_check.h"

namespace trireme {
namespace {

ColumnRange AllQueries(const AttentionArgs& args, std::int64_t row_stride) {
  return {.batch = args.batch,
          .rows = args.sequence,
          .first_row = 0,
          .part_rows = args.sequence,
          .columns = args.heads * args.head_size,
          .row_stride = row_stride};
}

}  // namespace

std::vector<CudnnAttention::Plan*> CudnnAttention::PlansFor(const AttentionArgs& args,
                                                            const std::vector<AttentionBlock>& blocks, bool backward) {
  std::vector<Plan*> plans;
  for (const AttentionBlock& block : blocks) {
    plans.push_back(PlanFor(args, AttentionShapeOf(args, block), backward, 0));
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
  ClearMemory(context_, sums, sum_bytes);
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
    ClearMemory(context_, totals, total_bytes);
  }
  ClearMemory(context_, args.grad_kv.data, args.grad_kv.bytes());
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
