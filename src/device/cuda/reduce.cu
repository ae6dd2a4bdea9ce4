#include <algorithm>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kMostSources = 256;

struct Sources {
  const void* pointers[kMostSources];
};

template <typename T>
struct ReduceBody {
  T* to;
  Sources sources;
  int source_count;
  bool maximum;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float result[kCount];
    Load(result, static_cast<const T*>(sources.pointers[0]) + first);
    for (int source = 1; source < source_count; ++source) {
      float values[kCount];
      Load(values, static_cast<const T*>(sources.pointers[source]) + first);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        // A NaN must survive a maximum, which fmaxf would not let it.
        const bool takes = values[i] > result[i] || values[i] != values[i];
        result[i] = maximum ? (takes ? values[i] : result[i]) : result[i] + values[i];
      }
    }
    Store(to + first, result);
  }
};

constexpr int kPartialWarps = 8;

// Block (x, y) sums a strip of 32 * kCount columns over its part of the rows into row y of `partial`.
template <typename T, int kCount>
__global__ void __launch_bounds__(kPartialWarps* kWarp)
    ColumnPartialsKernel(const T* in, std::int64_t rows, std::int64_t columns, std::int64_t rows_a_block,
                         float* partial) {
  __shared__ float shared[kPartialWarps][kWarp * kCount];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const std::int64_t strip = static_cast<std::int64_t>(blockIdx.x) * kWarp * kCount;
  const std::int64_t column = strip + lane * kCount;
  const std::int64_t first_row = blockIdx.y * rows_a_block;
  const std::int64_t last_row = first_row + rows_a_block < rows ? first_row + rows_a_block : rows;
  float sums[kCount] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = first_row + warp; row < last_row; row += kPartialWarps) {
      float values[kCount];
      Load(values, in + row * columns + column);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        sums[i] += values[i];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    shared[warp][lane * kCount + i] = sums[i];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kWarp * kCount && strip + i < columns; i += kPartialWarps * kWarp) {
    float total = 0;
#pragma unroll
    for (int other = 0; other < kPartialWarps; ++other) {
      total += shared[other][i];
    }
    partial[blockIdx.y * columns + strip + i] = total;
  }
}

constexpr int kSumLanes = 32;

// 32 columns a block; 32 warps share the rows.
__global__ void __launch_bounds__(kSumLanes* kWarp) AddColumnSumsKernel(ColumnSums sums) {
  __shared__ float shared[kSumLanes][kWarp + 1];
  const int lane = threadIdx.x % kWarp;
  const int row_lane = threadIdx.x / kWarp;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane;
  float total = 0;
  if (column < sums.columns) {
#pragma unroll 8
    for (std::int64_t row = row_lane; row < sums.rows; row += kSumLanes) {
      total += sums.partial[row * sums.columns + column];
    }
  }
  shared[row_lane][lane] = total;
  __syncthreads();
  if (row_lane == 0 && column < sums.columns) {
    total = 0;
    for (int other = 0; other < kSumLanes; ++other) {
      total += shared[other][lane];
    }
    if (column < sums.split) {
      if (sums.first != nullptr) {
        sums.first[column] += total;
      }
    } else if (sums.second != nullptr) {
      sums.second[column - sums.split] += total;
    }
  }
}

}  // namespace

void AddColumnSums(const CudaContext& context, const ColumnSums& sums) {
  const LaunchShape shape{dim3(static_cast<unsigned>(CeilDiv(sums.columns, kWarp))), dim3(kSumLanes * kWarp)};
  Launch(context, shape, AddColumnSumsKernel, sums);
}

void CudaOps::DoBiasGradient(const Tensor& grad_out, const Tensor& grad_bias) {
  const std::int64_t columns = grad_bias.count();
  if (columns == 0 || grad_out.count() == 0) {
    return;
  }
  const std::int64_t rows = grad_out.count() / columns;
  DispatchFloat(grad_out.dtype, "BiasGradient", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool wide = columns % kWidth<T> == 0 && Aligned16({grad_out.data});
    const std::int64_t strips = CeilDiv(columns, kWarp * (wide ? kWidth<T> : 1));
    // Enough blocks to fill the GPU, none with fewer than 32 rows, in at most 1024 parts.
    const std::int64_t wanted = CeilDiv(static_cast<std::int64_t>(context_.multiprocessors()) * 8, strips);
    const std::int64_t parts = std::min<std::int64_t>({wanted, CeilDiv(rows, 32), 1024});
    const std::int64_t rows_a_block = CeilDiv(rows, parts);
    auto* partial = static_cast<float*>(context_.Scratch(parts * columns * 4));
    const LaunchShape shape{dim3(static_cast<unsigned>(strips), static_cast<unsigned>(parts)),
                            dim3(kPartialWarps * kWarp)};
    if (wide) {
      Launch(context_, shape, ColumnPartialsKernel<T, kWidth<T>>, grad_out.as<T>(), rows, columns, rows_a_block,
             partial);
    } else {
      Launch(context_, shape, ColumnPartialsKernel<T, 1>, grad_out.as<T>(), rows, columns, rows_a_block, partial);
    }
    AddColumnSums(context_, {partial, parts, columns, columns, grad_bias.as<float>(), nullptr});
  });
}

void CudaOps::DoReduce(const Tensor& to, std::span<const void* const> sources, bool maximum) {
  if (to.count() == 0 || sources.empty()) {
    return;
  }
  if (sources.size() > kMostSources) {
    RefuseSize("Reduce", "sources", static_cast<std::int64_t>(sources.size()), kMostSources);
  }
  Sources given{};
  bool wide = Aligned16({to.data});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    given.pointers[i] = sources[i];
    wide = wide && Aligned16({sources[i]});
  }
  DispatchFloat(to.dtype, "Reduce", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForEach(context_, to.count(), wide, ReduceBody<T>{to.as<T>(), given, static_cast<int>(sources.size()), maximum});
  });
}

}  // namespace trireme
