#include <cmath>

#include "device/cuda/attention_plain.cuh"
#include "device/cuda/cuda_ops.h"

namespace trireme::plain_attention {
namespace {

template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads) AttentionForwardKernel(Heads<T> heads) {
  TRIREME_DYNAMIC_SHARED(float, shared);
  const int tile_floats = kTile * heads.shared_stride;
  float* queries = shared;
  float* keys = shared + tile_floats;
  float* values = keys + tile_floats;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRows;
  const std::int64_t head = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  const std::int64_t kv_head = heads.KvHead(head);
  const int lane = threadIdx.x % kWarp;
  const int own = threadIdx.x / kWarp * kOwned;
  const float slope = heads.Slope(head);
  LoadTile(queries, heads.qkv + heads.Query(batch, head), heads.RowStride(), first, heads.sequence, heads);
  float maximum[kOwned];
  float total[kOwned] = {};
  float sums[kOwned][kChunks] = {};
  std::int64_t first_key[kOwned];
  std::int64_t position[kOwned];
#pragma unroll
  for (int row = 0; row < kOwned; ++row) {
    maximum[row] = -INFINITY;
    first_key[row] = heads.FirstKey(batch, first + own + row);
    position[row] = heads.Position(first + own + row);
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
      float weights[kOwned];
      Dots(weights, queries + own * heads.shared_stride, keys, heads.shared_stride);
#pragma unroll
      for (int row = 0; row < kOwned; ++row) {
        const std::int64_t key = start + tile + lane;
        const bool seen = key >= first_key[row] && key <= position[row] && tile + lane < length;
        const float score = seen ? heads.Score(weights[row], slope, key - position[row]) : -INFINITY;
        const float higher = fmaxf(maximum[row], WarpMax(score));
        // Before a row's first key there is nothing to weigh, and no maximum to measure from.
        const float anchor = higher == -INFINITY ? 0.0F : higher;
        const float correction = expf(maximum[row] - anchor);
        weights[row] = expf(score - anchor);
        maximum[row] = higher;
        total[row] = total[row] * correction + WarpSum(weights[row]);
#pragma unroll
        for (int column = 0; column < kChunks; ++column) {
          sums[row][column] *= correction;
        }
      }
      AddWeighted(sums, weights, values, heads.shared_stride);
    }
  }
#pragma unroll
  for (int row = 0; row < kOwned; ++row) {
    const std::int64_t query = first + own + row;
    if (query < heads.sequence) {
      // A query that sees none of these keys gets 0, and minus infinity.
      StoreRow(heads.out + heads.Out(batch, head) + query * heads.OutStride(), sums[row],
               total[row] > 0 ? 1.0F / total[row] : 0.0F, heads.head_size);
      if (lane == 0) {
        heads.statistics[heads.Statistic(batch, head) + query] = maximum[row] + logf(total[row]);
      }
    }
  }
}

}  // namespace

void Forward(CudaContext& context, const AttentionArgs& args) {
  DispatchFloat(args.qkv.dtype, "AttentionForward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    DispatchHeadSize(args.head_size, [&](auto chunks) {
      const Heads<T> heads = HeadsOf<T>(args);
      Launch(context, ShapeOf(heads, CeilDiv(args.sequence, kRows), args.heads, args.batch, 3),
             AttentionForwardKernel<T, chunks.kCount>, heads);
    });
  });
}

}  // namespace trireme::plain_attention

namespace trireme {
namespace {

struct ShiftBody {
  const float* from;
  float* to;
  const float* slopes;
  std::int64_t heads;
  std::int64_t sequence;
  float factor;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t at = first + i;
      to[at] = from[at] + factor * slopes[at / sequence % heads] * static_cast<float>(at % sequence);
    }
  }
};

}  // namespace

void ShiftStatistics(const CudaContext& context, const AttentionArgs& args, float factor, const float* from,
                     float* to) {
  const ShiftBody body{from, to, args.slopes.as<float>(), args.heads, args.sequence, factor};
  ForEach(context, args.batch * args.heads * args.sequence, false, body);
}

}  // namespace trireme
