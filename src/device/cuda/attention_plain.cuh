// Attention without tensor cores, for what cuDNN does not take: fp32, windows, caps, documents and slopes over chunks,
// slopes with a window or a cap, documents and caps before Hopper, short sequences, odd head sizes, and shapes that
// cuDNN has no kernel for or takes much memory for. A block owns 32 rows (queries, or keys in the last pass), four to a
// warp, and walks tiles of 32 rows of the other side in shared memory; a lane has one row of the tile when it makes
// scores, and every 32nd column when it adds products up. Nothing is added by atomics, so equal calls give equal bits.
// A whole sequence is one chunk of queries and one of keys, at position 0.
#pragma once

#include <algorithm>

#include "device/cuda/kernels.cuh"
#include "device/ops.h"

namespace trireme::plain_attention {

inline constexpr int kWarps = 8;
inline constexpr int kThreads = kWarps * kWarp;
inline constexpr int kOwned = 4;  // rows of a warp
inline constexpr int kRows = kWarps * kOwned;
inline constexpr int kTile = kWarp;
inline constexpr std::int64_t kMostHeadSize = 256;
// The parts of AttentionArgs that kernels need. Kernels take them by value, within the 4 KiB that arguments may have.
inline constexpr std::size_t kMostQueryChunks = 64;
inline constexpr std::size_t kMostKeyChunks = 256;

// Where queries and keys stand in their sequence: see AttentionArgs.
struct Chunks {
  std::int64_t length;
  int query_count;
  int key_count;
  std::int32_t queries[kMostQueryChunks];
  struct Keys {
    std::int32_t position;
    std::int32_t row;
  };
  Keys keys[kMostKeyChunks];
};

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
  float* products;      // [B, H, T]: sum of grad_out * out over a head
  const T* kv;          // key heads, then value heads, of a row
  T* grad_kv;           // likewise
  std::int64_t kv_row;  // elements between rows of them
  Chunks chunks;

  __device__ std::int64_t RowStride() const { return (heads + 2 * kv_heads) * head_size; }
  __device__ std::int64_t OutStride() const { return heads * head_size; }
  __device__ std::int64_t KvHead(std::int64_t head) const { return head / (heads / kv_heads); }
  // Element offsets of the first row of a head of sequence `batch`; of keys and values, of a chunk of them.
  __device__ std::int64_t Query(std::int64_t batch, std::int64_t head) const {
    return batch * sequence * RowStride() + head * head_size;
  }
  __device__ std::int64_t Key(std::int64_t batch, std::int64_t kv_head, int chunk) const {
    return (chunks.keys[chunk].row + batch * sequence) * kv_row + kv_head * head_size;
  }
  __device__ std::int64_t Value(std::int64_t batch, std::int64_t kv_head, int chunk) const {
    return Key(batch, kv_heads + kv_head, chunk);
  }
  __device__ std::int64_t Out(std::int64_t batch, std::int64_t head) const {
    return batch * sequence * OutStride() + head * head_size;
  }
  __device__ std::int64_t Statistic(std::int64_t batch, std::int64_t head) const {
    return (batch * heads + head) * sequence;
  }
  __device__ float Slope(std::int64_t head) const { return slopes == nullptr ? 0.0F : slopes[head]; }
  // Position of a query row; past the end that of the last one.
  __device__ std::int64_t Position(std::int64_t row) const {
    const std::int64_t i = row < sequence ? row : sequence - 1;
    return chunks.queries[i / chunks.length] + i % chunks.length;
  }
  // The position of the first key that a query sees; its own at the latest.
  __device__ std::int64_t FirstKey(std::int64_t batch, std::int64_t row) const {
    const std::int64_t position = Position(row);
    const std::int64_t first = window > 0 && position >= window ? position + 1 - window : 0;
    if (document_starts == nullptr || row >= sequence) {
      return first;
    }
    const std::int64_t start = document_starts[batch * sequence + row];
    return start < first ? first : (start < position ? start : position);
  }
  // The score of a product of a query and a key that are `distance` apart (key - query).
  __device__ float Score(float product, float slope, std::int64_t distance) const {
    const float score = scale * product + slope * static_cast<float>(distance);
    return cap > 0 ? cap * tanhf(score / cap) : score;
  }
  // The derivative of a capped score by the score before.
  __device__ float CapSlope(float score) const { return cap > 0 ? 1.0F - score * score / (cap * cap) : 1.0F; }
};

// Rows [first, first + kTile) of the `rows` at `head` into shared memory as floats, zero past them and past the head.
template <typename T>
__device__ void LoadTile(float* shared, const T* head, std::int64_t row_stride, std::int64_t first, std::int64_t rows,
                         const Heads<T>& heads) {
  for (int i = threadIdx.x; i < kTile * heads.shared_stride; i += kThreads) {
    const int row = i / heads.shared_stride;
    const int column = i % heads.shared_stride;
    const bool inside = first + row < rows && column < heads.head_size;
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

// The positions of keys that any of a block's queries sees: [first, last].
struct SeenKeys {
  std::int64_t first;
  std::int64_t last;
  // The first element of a chunk of keys that begins at `position`, in whole tiles.
  __device__ std::int64_t Begin(std::int64_t position) const {
    return first > position ? (first - position) / kTile * kTile : 0;
  }
  __device__ std::int64_t End(std::int64_t position, std::int64_t length) const {
    return last - position + 1 < length ? last - position + 1 : length;
  }
};

template <typename T>
__device__ SeenKeys KeysOfBlock(const Heads<T>& heads, std::int64_t batch, std::int64_t first_query) {
  SeenKeys seen{heads.Position(first_query), 0};
  for (int i = 0; i < kRows && first_query + i < heads.sequence; ++i) {
    const std::int64_t first = heads.FirstKey(batch, first_query + i);
    const std::int64_t position = heads.Position(first_query + i);
    seen.first = first < seen.first ? first : seen.first;
    seen.last = position > seen.last ? position : seen.last;
  }
  return seen;
}

inline Chunks ChunksOf(const AttentionArgs& args) {
  Chunks chunks{args.chunk(), 1, 1, {0}, {}};
  if (!args.kv.given()) {
    return chunks;
  }
  if (args.query_chunks.size() > kMostQueryChunks) {
    RefuseSize("attention", "chunks of queries", static_cast<std::int64_t>(args.query_chunks.size()), kMostQueryChunks);
  }
  if (args.key_chunks.size() > kMostKeyChunks) {
    RefuseSize("attention", "chunks of keys", static_cast<std::int64_t>(args.key_chunks.size()), kMostKeyChunks);
  }
  chunks.query_count = static_cast<int>(args.query_chunks.size());
  chunks.key_count = static_cast<int>(args.key_chunks.size());
  std::copy(args.query_chunks.begin(), args.query_chunks.end(), chunks.queries);
  std::transform(args.key_chunks.begin(), args.key_chunks.end(), chunks.keys, [](const KeyChunk& chunk) {
    return Chunks::Keys{static_cast<std::int32_t>(chunk.position), static_cast<std::int32_t>(chunk.row)};
  });
  return chunks;
}

template <typename T>
Heads<T> HeadsOf(const AttentionArgs& args) {
  // An odd number of 16-byte words lets 8 lanes read 8 rows of a tile without meeting in a bank.
  const auto words = static_cast<int>(CeilDiv(args.head_size, 4) | 1);
  const std::int64_t query_width = args.heads * args.head_size;
  const std::int64_t kv_width = 2 * args.kv_heads * args.head_size;
  T* const grad_qkv = args.grad_qkv.as<T>();
  const bool apart = args.kv.given();
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
          grad_qkv,
          nullptr,
          apart ? args.kv.as<T>() : args.qkv.as<T>() + query_width,
          apart ? args.grad_kv.as<T>() : (grad_qkv == nullptr ? nullptr : grad_qkv + query_width),
          apart ? kv_width : query_width + kv_width,
          ChunksOf(args)};
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
LaunchShape ShapeOf(const Heads<T>& heads, std::int64_t row_tiles, std::int64_t block_heads, std::int64_t batch,
                    int tiles) {
  const auto extent = [](std::int64_t value) { return static_cast<unsigned>(value); };
  return {dim3(extent(row_tiles), extent(block_heads), extent(batch)), dim3(kThreads),
          static_cast<std::size_t>(tiles) * kTile * static_cast<std::size_t>(heads.shared_stride) * sizeof(float)};
}

}  // namespace trireme::plain_attention
