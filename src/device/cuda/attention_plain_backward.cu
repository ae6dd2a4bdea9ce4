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
  extern __shared__ __align__(16) float shared[];
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
  LoadTile(queries, heads.qkv + heads.Query(batch, head), heads.RowStride(), first, heads);
  LoadTile(grads, heads.grad_out + heads.Out(batch, head), heads.OutStride(), first, heads);
  float sums[kOwned][kChunks] = {};
  float log_sum[kOwned];
  float product[kOwned];
  std::int64_t first_key[kOwned];
#pragma unroll
  for (int row = 0; row < kOwned; ++row) {
    const std::int64_t query = first + own + row;
    const bool inside = query < heads.sequence;
    first_key[row] = heads.FirstKey(batch, query);
    log_sum[row] = inside ? heads.statistics[heads.Statistic(batch, head) + query] : 0.0F;
    product[row] = inside ? heads.products[heads.Statistic(batch, head) + query] : 0.0F;
  }
  for (std::int64_t tile = FirstTile(heads, batch, first); tile < first + kRows && tile < heads.sequence;
       tile += kTile) {
    __syncthreads();
    LoadTile(keys, heads.qkv + heads.Key(batch, kv_head), heads.RowStride(), tile, heads);
    LoadTile(values, heads.qkv + heads.Value(batch, kv_head), heads.RowStride(), tile, heads);
    __syncthreads();
    float scores[kOwned];
    float weights[kOwned];
    Dots(scores, queries + own * heads.shared_stride, keys, heads.shared_stride);
    Dots(weights, grads + own * heads.shared_stride, values, heads.shared_stride);
#pragma unroll
    for (int row = 0; row < kOwned; ++row) {
      const std::int64_t query = first + own + row;
      const std::int64_t key = tile + lane;
      const bool seen = key >= first_key[row] && key <= query && query < heads.sequence;
      const float score = heads.Score(scores[row], slope, key - query);
      const float probability = seen ? expf(score - log_sum[row]) : 0.0F;
      weights[row] = probability * (weights[row] - product[row]) * heads.CapSlope(score);
    }
    AddWeighted(sums, weights, keys, heads.shared_stride);
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
  extern __shared__ __align__(16) float shared[];
  const int tile_floats = kTile * heads.shared_stride;
  float* keys = shared;
  float* values = keys + tile_floats;
  float* queries = values + tile_floats;
  float* grads = queries + tile_floats;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRows;
  const std::int64_t kv_head = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  const int lane = threadIdx.x % kWarp;
  const int own = threadIdx.x / kWarp * kOwned;
  const std::int64_t group = heads.heads / heads.kv_heads;
  LoadTile(keys, heads.qkv + heads.Key(batch, kv_head), heads.RowStride(), first, heads);
  LoadTile(values, heads.qkv + heads.Value(batch, kv_head), heads.RowStride(), first, heads);
  float key_sums[kOwned][kChunks] = {};
  float value_sums[kOwned][kChunks] = {};
  // Queries past the window of the block's last key do not see it.
  const std::int64_t past = heads.window > 0 ? first + kRows - 1 + heads.window : heads.sequence;
  const std::int64_t last_query = past < heads.sequence ? past : heads.sequence;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const float slope = heads.Slope(head);
    for (std::int64_t tile = first; tile < last_query; tile += kTile) {
      __syncthreads();
      LoadTile(queries, heads.qkv + heads.Query(batch, head), heads.RowStride(), tile, heads);
      LoadTile(grads, heads.grad_out + heads.Out(batch, head), heads.OutStride(), tile, heads);
      __syncthreads();
      const std::int64_t query = tile + lane;
      const bool inside = query < heads.sequence;
      const std::int64_t first_key = heads.FirstKey(batch, query);
      const float log_sum = inside ? heads.statistics[heads.Statistic(batch, head) + query] : 0.0F;
      const float product = inside ? heads.products[heads.Statistic(batch, head) + query] : 0.0F;
      float probabilities[kOwned];
      float weights[kOwned];
      Dots(probabilities, keys + own * heads.shared_stride, queries, heads.shared_stride);
      Dots(weights, values + own * heads.shared_stride, grads, heads.shared_stride);
#pragma unroll
      for (int row = 0; row < kOwned; ++row) {
        const std::int64_t key = first + own + row;
        const bool seen = inside && key >= first_key && key <= query;
        const float score = heads.Score(probabilities[row], slope, key - query);
        probabilities[row] = seen ? expf(score - log_sum) : 0.0F;
        weights[row] = probabilities[row] * (weights[row] - product) * heads.CapSlope(score);
      }
      AddWeighted(value_sums, probabilities, grads, heads.shared_stride);
      AddWeighted(key_sums, weights, queries, heads.shared_stride);
    }
  }
#pragma unroll
  for (int row = 0; row < kOwned; ++row) {
    const std::int64_t key = first + own + row;
    if (key < heads.sequence) {
      T* rows = heads.grad_qkv + key * heads.RowStride();
      StoreRow(rows + heads.Key(batch, kv_head), key_sums[row], heads.scale, heads.head_size);
      StoreRow(rows + heads.Value(batch, kv_head), value_sums[row], 1.0F, heads.head_size);
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
      Launch(context, ShapeOf(args, heads, args.heads, 4), QueryGradientKernel<T, chunks.kCount>, heads);
      Launch(context, ShapeOf(args, heads, args.kv_heads, 4), KeyValueGradientKernel<T, chunks.kCount>, heads);
    });
  });
}

}  // namespace trireme::plain_attention
