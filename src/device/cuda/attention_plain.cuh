// Attention without tensor cores, for what cuDNN does not take: fp32, document starts, windows, capped scores, odd head
// sizes. A block owns 32
// rows (queries, or keys in the last pass), four to a warp, and walks tiles of 32 rows of the other side in shared
// memory; a lane has one row of the tile when it makes scores, and every 32nd column when it adds products up. Nothing
// is added by atomics, so equal calls give equal bits.
#pragma once

#include "device/cuda/kernels.cuh"
#include "device/ops.h"

namespace trireme::plain_attention {

inline constexpr int kWarps = 8;
inline constexpr int kThreads = kWarps * kWarp;
inline constexpr int kOwned = 4;  // rows of a warp
inline constexpr int kRows = kWarps * kOwned;
inline constexpr int kTile = kWarp;
inline constexpr std::int64_t kMostHeadSize = 256;

template <typename T>
struct Heads {
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t kv_heads;
  int head_size;
  int shared_stride;  // floats between rows in shared memory
  float scale;
  std::int64_t window;
  float cap;
  const float* slopes;
  const std::int32_t* document_starts;
  const T* qkv;
  T* out;
  float* statistics;
  const T* grad_out;
  T* grad_qkv;
  float* products;  // [B, H, T]: sum of grad_out * out over a head

  __device__ std::int64_t RowStride() const { return (heads + 2 * kv_heads) * head_size; }
  __device__ std::int64_t OutStride() const { return heads * head_size; }
  __device__ std::int64_t KvHead(std::int64_t head) const { return head / (heads / kv_heads); }
  // Element offsets of position 0 of a head of sequence `batch` in packed rows.
  __device__ std::int64_t Query(std::int64_t batch, std::int64_t head) const {
    return batch * sequence * RowStride() + head * head_size;
  }
  __device__ std::int64_t Key(std::int64_t batch, std::int64_t kv_head) const { return Query(batch, heads + kv_head); }
  __device__ std::int64_t Value(std::int64_t batch, std::int64_t kv_head) const {
    return Query(batch, heads + kv_heads + kv_head);
  }
  __device__ std::int64_t Out(std::int64_t batch, std::int64_t head) const {
    return batch * sequence * OutStride() + head * head_size;
  }
  __device__ std::int64_t Statistic(std::int64_t batch, std::int64_t head) const {
    return (batch * heads + head) * sequence;
  }
  __device__ float Slope(std::int64_t head) const { return slopes == nullptr ? 0.0F : slopes[head]; }
  // First key that a query sees; itself at the latest.
  __device__ std::int64_t FirstKey(std::int64_t batch, std::int64_t query) const {
    const std::int64_t first = window > 0 && query >= window ? query + 1 - window : 0;
    if (document_starts == nullptr || query >= sequence) {
      return first;
    }
    const std::int64_t start = document_starts[batch * sequence + query];
    return start < first ? first : (start < query ? start : query);
  }
  // Of a product of a query and a key that are `distance` apart (key - query).
  __device__ float Score(float product, float slope, std::int64_t distance) const {
    const float score = scale * product + slope * static_cast<float>(distance);
    return cap > 0 ? cap * tanhf(score / cap) : score;
  }
  // The derivative of a capped score by the score before.
  __device__ float CapSlope(float score) const { return cap > 0 ? 1.0F - score * score / (cap * cap) : 1.0F; }
};

// Rows [first, first + kRows) of a head into shared memory as floats, zero past the sequence and the head.
template <typename T>
__device__ void LoadTile(float* shared, const T* head, std::int64_t row_stride, std::int64_t first,
                         const Heads<T>& heads) {
  for (int i = threadIdx.x; i < kTile * heads.shared_stride; i += kThreads) {
    const int row = i / heads.shared_stride;
    const int column = i % heads.shared_stride;
    const bool inside = first + row < heads.sequence && column < heads.head_size;
    shared[i] = inside ? ToFloat(head[(first + row) * row_stride + column]) : 0.0F;
  }
}

// Products of the warp's own rows with the lane's row of a tile.
__device__ inline void Dots(float (&dots)[kOwned], const float* own, const float* tile, int shared_stride) {
  const auto* tile_row = reinterpret_cast<const float4*>(tile + threadIdx.x % kWarp * shared_stride);
#pragma unroll
  for (int row = 0; row < kOwned; ++row) {
    dots[row] = 0;
  }
  for (int i = 0; i < shared_stride / 4; ++i) {
    const float4 b = tile_row[i];
#pragma unroll
    for (int row = 0; row < kOwned; ++row) {
      const float4 a = reinterpret_cast<const float4*>(own + row * shared_stride)[i];
      dots[row] += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
  }
}

// sums += weights * tile: the weight of tile row j is in lane j; the lane's columns are every 32nd.
template <int kChunks>
__device__ void AddWeighted(float (&sums)[kOwned][kChunks], const float (&weights)[kOwned], const float* tile,
                            int shared_stride) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll 4
  for (int j = 0; j < kTile; ++j) {
    float values[kChunks];
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int column = chunk * kWarp + lane;
      values[chunk] = column < shared_stride ? tile[j * shared_stride + column] : 0.0F;
    }
#pragma unroll
    for (int row = 0; row < kOwned; ++row) {
      const float weight = __shfl_sync(0xffffffffU, weights[row], j);
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        sums[row][chunk] += weight * values[chunk];
      }
    }
  }
}

template <int kChunks, typename T>
__device__ void StoreRow(T* to, const float (&sums)[kChunks], float factor, int head_size) {
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int column = chunk * kWarp + static_cast<int>(threadIdx.x % kWarp);
    if (column < head_size) {
      to[column] = FromFloat<T>(sums[chunk] * factor);
    }
  }
}

// The earliest tile that any query of the block sees.
template <typename T>
__device__ std::int64_t FirstTile(const Heads<T>& heads, std::int64_t batch, std::int64_t first_query) {
  std::int64_t earliest = first_query;
  for (int i = 0; i < kRows && first_query + i < heads.sequence; ++i) {
    const std::int64_t key = heads.FirstKey(batch, first_query + i);
    earliest = key < earliest ? key : earliest;
  }
  return earliest / kTile * kTile;
}

template <typename T>
Heads<T> HeadsOf(const AttentionArgs& args) {
  // An odd number of 16-byte words lets 8 lanes read 8 rows of a tile without meeting in a bank.
  const auto words = static_cast<int>(CeilDiv(args.head_size, 4) | 1);
  return {args.sequence,
          args.heads,
          args.kv_heads,
          static_cast<int>(args.head_size),
          4 * words,
          args.scale,
          args.window,
          args.cap,
          args.slopes.as<float>(),
          args.document_starts.as<std::int32_t>(),
          args.qkv.as<T>(),
          args.out.as<T>(),
          args.statistics.as<float>(),
          args.grad_out.as<T>(),
          args.grad_qkv.as<T>(),
          nullptr};
}

template <int kChunks>
struct ChunkTag {
  static constexpr int kCount = kChunks;
};

template <typename Function>
void DispatchHeadSize(std::int64_t head_size, const Function& run) {
  if (head_size <= 64) {
    run(ChunkTag<2>{});
  } else if (head_size <= 128) {
    run(ChunkTag<4>{});
  } else if (head_size <= kMostHeadSize) {
    run(ChunkTag<8>{});
  } else {
    RefuseSize("attention", "elements of a head", head_size, kMostHeadSize);
  }
}

// One block for each (tile of rows, head, sequence), with `tiles` tiles in shared memory.
template <typename T>
LaunchShape ShapeOf(const AttentionArgs& args, const Heads<T>& heads, std::int64_t block_heads, int tiles) {
  const auto extent = [](std::int64_t value) { return static_cast<unsigned>(value); };
  return {dim3(extent(CeilDiv(args.sequence, kRows)), extent(block_heads), extent(args.batch)), dim3(kThreads),
          static_cast<std::size_t>(tiles) * kTile * static_cast<std::size_t>(heads.shared_stride) * sizeof(float)};
}

}  // namespace trireme::plain_attention
