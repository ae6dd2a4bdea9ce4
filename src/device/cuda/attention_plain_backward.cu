#include <cmath>

#include "device/cuda/attention_plain.cuh"
#include "device/cuda/cuda_ops.h"

namespace trireme::plain_attention {
namespace {

// products = sum of grad_out * out over each head; a warp a (row, head).
template <typename T>
__global__ void __launch_bounds__(kThreads) ProductsKernel(Heads<T> heads, std::int64_t rows) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (index >= rows * heads.heads) {
    return;
  }
  const std::int64_t row = index / heads.heads;
  const std::int64_t head = index % heads.heads;
  const std::int64_t at = row * heads.OutStride() + head * heads.head_size;
  float product = 0;
  for (int column = threadIdx.x % kWarp; column < heads.head_size; column += kWarp) {
    product += ToFloat(heads.out[at + column]) * ToFloat(heads.grad_out[at + column]);
  }
  product = WarpSum(product);
  if (threadIdx.x % kWarp == 0) {
    heads.products[heads.Statistic(row / heads.sequence, head) + row % heads.sequence] = product;
  }
}

template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads) QueryGradientKernel(Heads<T> heads) {
  TRIREME_DYNAMIC_SHARED(float, shared);
  const int tile_floats = kTile * heads.shared_stride;
  float* queries = shared;
  float* grads = queries + tile_floats;
  float* keys = grads + tile_floats;
  float* values = keys + tile_floats;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRows;
  const std::int64_t head = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  const std::int64_t kv_head = heads.KvHead(head);
  const int lane = threadIdx.x % kWarp;
  const int own = threadIdx.x / kWarp * kOwned;
  const float slope = heads.Slope(head);
  LoadTile(queries, heads.qkv + heads.Query(batch, head), heads.RowStride(), first, heads.sequence, heads);
  LoadTile(grads, heads.grad_out + heads.Out(batch, head), heads.OutStride(), first, heads.sequence, heads);
  float sums[kOwned][kChunks] = {};
  float log_sum[kOwned];
  float product[kOwned];
  std::int64_t first_key[kOwned];
  std::int64_t position[kOwned];
#pragma unroll
  for (int row = 0; row < kOwned; ++row) {
    const std::int64_t query = first + own + row;
    const bool inside = query < heads.sequence;
    position[row] = heads.Position(query);
    first_key[row] = heads.FirstKey(batch, query);
    log_sum[row] = inside ? heads.statistics[heads.Statistic(batch, head) + query] : 0.0F;
    product[row] = inside ? heads.products[heads.Statistic(batch, head) + query] : 0.0F;
  }
  const SeenKeys seen_keys = KeysOfBlock(heads, batch, first);
  const std::int64_t length = heads.chunks.length;
  for (int chunk = 0; chunk < heads.chunks.key_count; ++chunk) {
    const std::int64_t start = heads.chunks.keys[chunk].position;
    for (std::int64_t tile = seen_keys.Begin(start); tile < seen_keys.End(start, length); tile += kTile) {
      __syncthreads();
      LoadTile(keys, heads.kv + heads.Key(batch, kv_head, chunk), heads.kv_row, tile, length, heads);
      LoadTile(values, heads.kv + heads.Value(batch, kv_head, chunk), heads.kv_row, tile, length, heads);
      __syncthreads();
      float scores[kOwned];
      float weights[kOwned];
      Dots(scores, queries + own * heads.shared_stride, keys, heads.shared_stride);
      Dots(weights, grads + own * heads.shared_stride, values, heads.shared_stride);
#pragma unroll
      for (int row = 0; row < kOwned; ++row) {
        const std::int64_t key = start + tile + lane;
        const bool seen =
            key >= first_key[row] && key <= position[row] && tile + lane < length && first + own + row < heads.sequence;
        const float score = heads.Score(scores[row], slope, key - position[row]);
        const float probability = seen ? expf(score - log_sum[row]) : 0.0F;
        weights[row] = probability * (weights[row] - product[row]) * heads.CapSlope(score);
      }
      AddWeighted(sums, weights, keys, heads.shared_stride);
    }
  }
#pragma unroll
  for (int row = 0; row < kOwned; ++row) {
    const std::int64_t query = first + own + row;
    if (query < heads.sequence) {
      StoreRow(heads.grad_qkv + heads.Query(batch, head) + query * heads.RowStride(), sums[row], heads.scale,
               heads.head_size);
    }
  }
}

template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads) KeyValueGradientKernel(Heads<T> heads) {
  TRIREME_DYNAMIC_SHARED(float, shared);
  const int tile_floats = kTile * heads.shared_stride;
  float* keys = shared;
  float* values = keys + tile_floats;
  float* queries = values + tile_floats;
  float* grads = queries + tile_floats;
  const std::int64_t length = heads.chunks.length;
  const int tiles = static_cast<int>((length + kRows - 1) / kRows);
  const int key_chunk = static_cast<int>(blockIdx.x) / tiles;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % tiles) * kRows;  // within its chunk
  const std::int64_t first_position = heads.chunks.keys[key_chunk].position + first;
  const std::int64_t kv_head = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  const int lane = threadIdx.x % kWarp;
  const int own = threadIdx.x / kWarp * kOwned;
  const std::int64_t group = heads.heads / heads.kv_heads;
  LoadTile(keys, heads.kv + heads.Key(batch, kv_head, key_chunk), heads.kv_row, first, length, heads);
  LoadTile(values, heads.kv + heads.Value(batch, kv_head, key_chunk), heads.kv_row, first, length, heads);
  float key_sums[kOwned][kChunks] = {};
  float value_sums[kOwned][kChunks] = {};
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const float slope = heads.Slope(head);
    for (int chunk = 0; chunk < heads.chunks.query_count; ++chunk) {
      const std::int64_t start = heads.chunks.queries[chunk];
      const std::int64_t row_offset = chunk * length;
      // Queries before the block's first key and past the window of its last one see none of them.
      const std::int64_t begin = first_position > start ? (first_position - start) / kTile * kTile : 0;
      const std::int64_t past = heads.window > 0 ? first_position + kRows - 1 + heads.window - start : length;
      const std::int64_t end = past < length ? past : length;
      for (std::int64_t tile = begin; tile < end; tile += kTile) {
        __syncthreads();
        LoadTile(queries, heads.qkv + heads.Query(batch, head) + row_offset * heads.RowStride(), heads.RowStride(),
                 tile, length, heads);
        LoadTile(grads, heads.grad_out + heads.Out(batch, head) + row_offset * heads.OutStride(), heads.OutStride(),
                 tile, length, heads);
        __syncthreads();
        const std::int64_t query = row_offset + tile + lane;
        const std::int64_t position = start + tile + lane;
        const bool inside = tile + lane < length;
        const std::int64_t first_key = inside ? heads.FirstKey(batch, query) : 0;
        const float log_sum = inside ? heads.statistics[heads.Statistic(batch, head) + query] : 0.0F;
        const float product = inside ? heads.products[heads.Statistic(batch, head) + query] : 0.0F;
        float probabilities[kOwned];
        float weights[kOwned];
        Dots(probabilities, keys + own * heads.shared_stride, queries, heads.shared_stride);
        Dots(weights, values + own * heads.shared_stride, grads, heads.shared_stride);
#pragma unroll
        for (int row = 0; row < kOwned; ++row) {
          const std::int64_t key = first_position + own + row;
          const bool seen = inside && key >= first_key && key <= position;
          const float score = heads.Score(probabilities[row], slope, key - position);
          probabilities[row] = seen ? expf(score - log_sum) : 0.0F;
          weights[row] = probabilities[row] * (weights[row] - product) * heads.CapSlope(score);
        }
        AddWeighted(value_sums, probabilities, grads, heads.shared_stride);
        AddWeighted(key_sums, weights, queries, heads.shared_stride);
      }
    }
  }
#pragma unroll
  for (int row = 0; row < kOwned; ++row) {
    const std::int64_t key = first + own + row;
    if (key < length) {
      T* rows = heads.grad_kv + key * heads.kv_row;
      StoreRow(rows + heads.Key(batch, kv_head, key_chunk), key_sums[row], heads.scale, heads.head_size);
      StoreRow(rows + heads.Value(batch, kv_head, key_chunk), value_sums[row], 1.0F, heads.head_size);
    }
  }
}

}  // namespace

void Backward(CudaContext& context, const AttentionArgs& args) {
  DispatchFloat(args.qkv.dtype, "AttentionBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    DispatchHeadSize(args.head_size, [&](auto chunks) {
      Heads<T> heads = HeadsOf<T>(args);
      const std::int64_t rows = args.batch * args.sequence;
      heads.products = static_cast<float*>(context.Scratch(rows * args.heads * 4));
      const LaunchShape products{dim3(static_cast<unsigned>(CeilDiv(rows * args.heads, kWarps))), dim3(kThreads)};
      Launch(context, products, ProductsKernel<T>, heads, rows);
      Launch(context, ShapeOf(heads, CeilDiv(args.sequence, kRows), args.heads, args.batch, 4),
             QueryGradientKernel<T, chunks.kCount>, heads);
      const std::int64_t key_tiles = heads.chunks.key_count * CeilDiv(heads.chunks.length, kRows);
      Launch(context, ShapeOf(heads, key_tiles, args.kv_heads, args.batch, 4), KeyValueGradientKernel<T, chunks.kCount>,
             heads);
    });
  });
}

}  // namespace trireme::plain_attention
