#include <utility>
#include <vector>

#include "device/cuda/attention_plan.h"
#include "device/cuda/attention_segments.h"
#include "device/cuda/clear_memory.h"
#include "device/cuda/cuda_check.h"

namespace trireme {
namespace {

// 1 where documents are not computed in segments. Slopes would shift statistics by the row of a segment. Some versions
// of cuDNN add up wrongly where rows of segments are not whole steps of 16 elements, and deterministic plans would take
// memory for all pairs of every segment's longest length.
std::int64_t SegmentsHere(const CudaContext& context, const AttentionArgs& args) {
  const bool offered =
      args.document_starts.given() && !args.slopes.given() && args.head_size % 16 == 0 && !context.deterministic();
  return offered ? SegmentsOf(args) : 1;
}

// Rows of scratch past the last one: cuDNN reads and writes whole tiles.
constexpr std::int64_t kSpareRows = 128;

std::vector<CudnnBinding> TableBindings(const SegmentTable& table) {
  return {{kQueryLengths, table.lengths},
          {kKeyLengths, table.lengths},
          {kPackedOffsets, table.packed_offsets},
          {kOutOffsets, table.out_offsets},
          {kStatisticOffsets, table.statistic_offsets}};
}

struct RowMemory {
  char* first;
  std::int64_t bytes_between;
};

// As much of each row as `from` has.
void CopyRows(const CudaContext& context, const RowMemory& to, const RowMemory& from, std::int64_t rows) {
  const auto width = static_cast<std::size_t>(from.bytes_between);
  CheckCuda(cudaMemcpy2DAsync(to.first, static_cast<std::size_t>(to.bytes_between), from.first, width, width,
                              static_cast<std::size_t>(rows), cudaMemcpyDeviceToDevice, context.stream()),
            "copy gradients of keys");
}

}  // namespace

bool CudnnAttention::ForwardInSegments(const AttentionArgs& args) {
  const std::int64_t segments = SegmentsHere(context_, args);
  if (segments == 1) {
    return false;
  }
  const std::int64_t table_bytes = SegmentTable::Bytes(args, segments);
  const std::int64_t statistic_bytes = RoundUp((args.batch * args.sequence + kSpareRows) * args.heads * 4, 256);
  Plan* plan = PlanFor(args, SegmentShapeOf(args, segments), false, table_bytes + statistic_bytes);
  if (plan == nullptr) {
    return false;
  }
  auto* memory = static_cast<char*>(context_.Scratch(table_bytes + statistic_bytes + plan->plan.workspace_bytes()));
  const SegmentTable table(memory, args, segments);
  auto* statistics = reinterpret_cast<float*>(memory + table_bytes);
  CutIntoSegments(context_, args, segments, table);
  Pieces pieces(args, WholeSequence(args));
  pieces.statistics = statistics;
  pieces.document_starts = table.document_starts;
  pieces.others = TableBindings(table);
  RunForward(*plan, args, pieces, memory + table_bytes + statistic_bytes);
  StatisticsFromRows(context_, args, statistics, args.statistics.as<float>());
  return true;
}

bool CudnnAttention::BackwardInSegments(const AttentionArgs& args) {
  const std::int64_t segments = SegmentsHere(context_, args);
  if (segments == 1) {
    return false;
  }
  const bool grouped = args.heads != args.kv_heads;
  const std::int64_t rows = args.batch * args.sequence;
  const std::int64_t element = SizeOf(args.qkv.dtype);
  const std::int64_t key_row = args.kv_heads * args.head_size * element;
  const std::int64_t packed_row = args.qkv.shape[1] * element;
  std::int64_t total = 0;
  const auto take = [&](std::int64_t row_bytes) {
    return std::exchange(total, total + RoundUp((rows + kSpareRows) * row_bytes, 256));
  };
  const std::int64_t statistics_at = take(args.heads * 4);
  const std::int64_t row_sums_at = take(args.heads * 4);
  const std::int64_t sums_at = take(args.qkv.shape[1] * 4);
  const std::int64_t key_at = take(grouped ? key_row : 0);
  const std::int64_t value_at = take(grouped ? key_row : 0);
  const std::int64_t all_key_at = take(grouped ? args.out.shape[1] * element : 0);
  const std::int64_t all_value_at = take(grouped ? args.out.shape[1] * element : 0);
  const std::int64_t table_at = total;
  const std::int64_t workspace_at = table_at + SegmentTable::Bytes(args, segments);
  Plan* plan = PlanFor(args, SegmentShapeOf(args, segments), true, workspace_at);
  if (plan == nullptr) {
    return false;
  }
  auto* memory = static_cast<char*>(context_.Scratch(workspace_at + plan->plan.workspace_bytes()));
  // A number of a spare row may be read and then multiplied by a weight of 0, which lets NaN through; and nothing says
  // that cuDNN clears sums of batch entries of varying length.
  ClearMemory(context_, memory + statistics_at, args.heads * 4 * (rows + kSpareRows));
  ClearMemory(context_, memory + row_sums_at, args.heads * 4 * (rows + kSpareRows));
  ClearRows(context_, {.first = memory + sums_at,
                       .bytes_between = args.qkv.shape[1] * 4,
                       .bytes = args.out.shape[1] * 4,
                       .rows = rows + kSpareRows});
  const SegmentTable table(memory + table_at, args, segments);
  auto* statistics = reinterpret_cast<float*>(memory + statistics_at);
  CutIntoSegments(context_, args, segments, table);
  StatisticsToRows(context_, args, args.statistics.as<float>(), statistics);
  Pieces pieces(args, WholeSequence(args));
  char* const grad_key = static_cast<char*>(pieces.grad_key);
  char* const grad_value = static_cast<char*>(pieces.grad_value);
  pieces.statistics = statistics;
  pieces.document_starts = table.document_starts;
  pieces.others = TableBindings(table);
  pieces.others.push_back({kRowSums, memory + row_sums_at});
  if (grouped) {
    pieces.grad_key = memory + key_at;
    pieces.grad_value = memory + value_at;
    pieces.others.push_back({kKeyGradientOffsets, table.key_gradient_offsets});
    pieces.others.push_back({kAllKeyGradients, memory + all_key_at});
    pieces.others.push_back({kAllValueGradients, memory + all_value_at});
  }
  RunBackward(*plan, args, pieces, memory + sums_at, memory + workspace_at);
  if (grouped) {
    CopyRows(context_, {grad_key, packed_row}, {memory + key_at, key_row}, rows);
    CopyRows(context_, {grad_value, packed_row}, {memory + value_at, key_row}, rows);
  }
  return true;
}

}  // namespace trireme
