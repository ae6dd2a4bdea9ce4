#include <cmath>

#include "device/cuda/attention_merge.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kMergeWarps = 8;

// A warp a (row of the part, head).
template <typename T>
__global__ void __launch_bounds__(kMergeWarps* kWarp) MergeKernel(PartMerge merge, const T* part_out) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kMergeWarps + threadIdx.x / kWarp;
  if (index >= merge.batch * merge.part_rows * merge.heads) {
    return;
  }
  const std::int64_t head = index % merge.heads;
  const std::int64_t part_row = index / merge.heads;
  const std::int64_t batch = part_row / merge.part_rows;
  const std::int64_t row = part_row % merge.part_rows;
  float* statistic = merge.statistics + (batch * merge.heads + head) * merge.rows + merge.first_row + row;
  const float a = *statistic;
  const float b = merge.part_statistics[(batch * merge.heads + head) * merge.part_rows + row];
  const float most = fmaxf(a, b);
  const float first = most == -INFINITY ? 0.0F : expf(a - most);
  const float second = most == -INFINITY ? 0.0F : expf(b - most);
  const float sum = first + second;
  const float kept = sum > 0 ? first / sum : 0.0F;
  const float added = sum > 0 ? second / sum : 0.0F;
  const std::int64_t width = merge.heads * merge.head_size;
  const std::int64_t at = (batch * merge.rows + merge.first_row + row) * width + head * merge.head_size;
  float* out = merge.out + at;
  const T* part = part_out + at;
  for (std::int64_t column = threadIdx.x % kWarp; column < merge.head_size; column += kWarp) {
    out[column] = kept * out[column] + added * ToFloat(part[column]);
  }
  __syncwarp();
  if (threadIdx.x % kWarp == 0 && sum > 0) {
    *statistic = most + logf(sum);
  }
}

struct ClearBody {
  float* statistics;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      statistics[first + i] = -INFINITY;
    }
  }
};

// Indices run over the columns of all rows of a range.
template <typename T>
struct AddColumnsBody {
  ColumnRange range;
  float* sums;
  T* rows;
  bool store;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t at = first + i;
      const std::int64_t column = at % range.columns;
      const std::int64_t part_row = at / range.columns;
      const std::int64_t row = part_row / range.part_rows * range.rows + range.first_row + part_row % range.part_rows;
      float& sum = sums[row * range.columns + column];
      T& value = rows[row * range.row_stride + column];
      if (store) {
        value = FromFloat<T>(sum);
      } else {
        sum += ToFloat(value);
      }
    }
  }
};

void RunColumns(const CudaContext& context, const ColumnRange& range, float* sums, const Tensor& rows, bool store) {
  DispatchFloat(rows.dtype, "AttentionBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForEach(context, range.batch * range.part_rows * range.columns, false,
            AddColumnsBody<T>{range, sums, rows.as<T>(), store});
  });
}

}  // namespace

void MergePart(const CudaContext& context, const PartMerge& merge, const Tensor& part_out) {
  DispatchFloat(part_out.dtype, "MergeAttention", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const std::int64_t warps = merge.batch * merge.part_rows * merge.heads;
    const LaunchShape shape{dim3(static_cast<unsigned>(CeilDiv(warps, kMergeWarps))), dim3(kMergeWarps * kWarp)};
    Launch(context, shape, MergeKernel<T>, merge, part_out.as<T>());
  });
}

void ClearStatistics(const CudaContext& context, const Tensor& statistics) {
  ForEach(context, statistics.count(), false, ClearBody{statistics.as<float>()});
}

void AddToQuerySums(const CudaContext& context, const ColumnRange& range, float* sums, const Tensor& rows) {
  RunColumns(context, range, sums, rows, false);
}

void StoreQuerySums(const CudaContext& context, const ColumnRange& range, float* sums, const Tensor& rows) {
  RunColumns(context, range, sums, rows, true);
}

void CudaOps::DoMergeAttention(const AttentionMerge& merge) {
  MergePart(context_,
            {.batch = merge.batch,
             .heads = merge.heads,
             .head_size = merge.head_size,
             .rows = merge.sequence,
             .first_row = 0,
             .part_rows = merge.sequence,
             .out = merge.out.as<float>(),
             .statistics = merge.statistics.as<float>(),
             .part_statistics = merge.part_statistics.as<float>()},
            merge.part_out);
}

}  // namespace trireme
