#include <algorithm>

#include "base/shape.h"
#include "device/cuda/attention_segments.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kThreads = 1024;
constexpr std::int64_t kMostSegments = 64;  // of a sequence
// Every tile of every head and entry is a block of cuDNN's, with or without rows. Twice as many segments halve the work
// on short documents and double those blocks.
constexpr std::int64_t kSegmentRows = 1024;
constexpr std::int64_t kAlignment = 256;

struct Cut {
  const std::int32_t* starts;
  std::int64_t sequence;
  std::int64_t segments;
  std::int64_t packed_row;
  std::int64_t out_row;
  std::int64_t heads;
  std::int64_t key_row;
  SegmentTable table;
};

// A block has one sequence. A document begins at p, and a segment may, where no position from p on sees one before p.
__global__ void __launch_bounds__(kThreads) CutKernel(Cut cut) {
  __shared__ std::int32_t lowest[kThreads];
  __shared__ std::int32_t bounds[kMostSegments + 1];
  const auto sequence = static_cast<std::int32_t>(cut.sequence);
  const auto segments = static_cast<std::int32_t>(cut.segments);
  const std::int64_t batch = blockIdx.x;
  const std::int32_t* starts = cut.starts + batch * cut.sequence;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t own = (sequence + kThreads - 1) / kThreads;
  const std::int32_t first = min(thread * own, sequence);
  const std::int32_t last = min(first + own, sequence);
  std::int32_t own_lowest = sequence;
  for (std::int32_t t = first; t < last; ++t) {
    own_lowest = min(own_lowest, starts[t]);
  }
  lowest[thread] = own_lowest;
  for (std::int32_t k = thread; k <= segments; k += kThreads) {
    bounds[k] = k == 0 ? 0 : sequence;
  }
  __syncthreads();
  for (int distance = 1; distance < kThreads; distance *= 2) {
    const std::int32_t other = thread + distance < kThreads ? lowest[thread + distance] : sequence;
    __syncthreads();
    lowest[thread] = min(lowest[thread], other);
    __syncthreads();
  }
  std::int32_t seen = thread + 1 < kThreads ? lowest[thread + 1] : sequence;
  for (std::int32_t t = last - 1; t >= first; --t) {
    seen = min(seen, starts[t]);
    if (seen >= t) {
      // The first segment whose share of positions reaches t.
      const auto k = static_cast<std::int32_t>(static_cast<std::int64_t>(t) * segments / sequence);
      atomicMin(&bounds[k], t);
    }
  }
  __syncthreads();
  if (thread == 0) {
    for (std::int32_t k = segments - 1; k > 0; --k) {
      bounds[k] = min(bounds[k], bounds[k + 1]);
    }
  }
  __syncthreads();
  const std::int64_t entry = batch * cut.segments;
  for (std::int32_t k = thread; k < segments; k += kThreads) {
    cut.table.lengths[entry + k] = bounds[k + 1] - bounds[k];
  }
  // The end of one sequence is the next one's beginning: of two blocks, the next one's writes it.
  const std::int32_t ends = batch + 1 == gridDim.x ? segments + 1 : segments;
  for (std::int32_t k = thread; k < ends; k += kThreads) {
    const std::int64_t row = batch * cut.sequence + bounds[k];
    cut.table.packed_offsets[entry + k] = row * cut.packed_row;
    cut.table.out_offsets[entry + k] = row * cut.out_row;
    cut.table.statistic_offsets[entry + k] = row * cut.heads;
    cut.table.key_gradient_offsets[entry + k] = row * cut.key_row;
  }
  for (std::int32_t t = thread; t < sequence; t += kThreads) {
    std::int32_t k = 0;
    while (bounds[k + 1] <= t) {
      ++k;
    }
    cut.table.document_starts[(entry + k) * cut.sequence + t - bounds[k]] = max(starts[t] - bounds[k], 0);
  }
}

// from[b, i, j] of `rows` x `columns` to to[b, j, i].
struct TransposeBody {
  const float* from;
  float* to;
  std::int64_t rows;
  std::int64_t columns;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t at = first + i;  // of `to`
      const std::int64_t row = at % rows;
      const std::int64_t column = at / rows % columns;
      to[at] = from[(at / (rows * columns) * rows + row) * columns + column];
    }
  }
};

std::int64_t Aligned(std::int64_t bytes) { return RoundUp(bytes, kAlignment); }

}  // namespace

std::int64_t SegmentsOf(const AttentionArgs& args) {
  return std::clamp<std::int64_t>(args.sequence / kSegmentRows, 1, kMostSegments);
}

std::int64_t SegmentTable::Bytes(const AttentionArgs& args, std::int64_t segments) {
  const std::int64_t entries = args.batch * segments;
  return Aligned(entries * 4) + 4 * Aligned((entries + 1) * 8) + Aligned(entries * args.sequence * 4);
}

SegmentTable::SegmentTable(void* memory, const AttentionArgs& args, std::int64_t segments) {
  const std::int64_t entries = args.batch * segments;
  auto* next = static_cast<char*>(memory);
  const auto take = [&next](std::int64_t bytes) {
    char* taken = next;
    next += Aligned(bytes);
    return taken;
  };
  lengths = reinterpret_cast<std::int32_t*>(take(entries * 4));
  packed_offsets = reinterpret_cast<std::int64_t*>(take((entries + 1) * 8));
  out_offsets = reinterpret_cast<std::int64_t*>(take((entries + 1) * 8));
  statistic_offsets = reinterpret_cast<std::int64_t*>(take((entries + 1) * 8));
  key_gradient_offsets = reinterpret_cast<std::int64_t*>(take((entries + 1) * 8));
  document_starts = reinterpret_cast<std::int32_t*>(take(entries * args.sequence * 4));
}

void CutIntoSegments(const CudaContext& context, const AttentionArgs& args, std::int64_t segments,
                     const SegmentTable& table) {
  const Cut cut{args.document_starts.as<std::int32_t>(),
                args.sequence,
                segments,
                (args.heads + 2 * args.kv_heads) * args.head_size,
                args.heads * args.head_size,
                args.heads,
                args.kv_heads * args.head_size,
                table};
  Launch(context, {dim3(static_cast<unsigned>(args.batch)), dim3(kThreads)}, CutKernel, cut);
}

void StatisticsFromRows(const CudaContext& context, const AttentionArgs& args, const float* rows, float* statistics) {
  ForEach(context, args.batch * args.heads * args.sequence, false,
          TransposeBody{rows, statistics, args.sequence, args.heads});
}

void StatisticsToRows(const CudaContext& context, const AttentionArgs& args, const float* statistics, float* rows) {
  ForEach(context, args.batch * args.heads * args.sequence, false,
          TransposeBody{statistics, rows, args.heads, args.sequence});
}

}  // namespace trireme
