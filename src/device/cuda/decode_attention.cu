#include <cmath>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kDecodeWarps = 8;
constexpr std::int64_t kMostHeadSize = 256;

template <typename T>
struct Decode {
  std::int64_t queries;
  std::int64_t capacity;
  std::int64_t heads;
  std::int64_t kv_heads;
  int head_size;
  float scale;
  std::int64_t window;
  float cap;
  const float* slopes;
  const std::int32_t* starts;
  const T* qkv;
  T* keys;
  T* values;
  T* out;

  __device__ std::int64_t Packed(std::int64_t row, std::int64_t head) const {
    return (row * (heads + 2 * kv_heads) + head) * head_size;
  }
  __device__ std::int64_t Cached(std::int64_t batch, std::int64_t position, std::int64_t kv_head) const {
    return ((batch * capacity + position) * kv_heads + kv_head) * head_size;
  }
};

// Indices run over the keys of the new tokens: [B*Q, Hkv, D].
template <typename T>
struct AppendBody {
  Decode<T> decode;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    const std::int64_t column = first % decode.head_size;
    const std::int64_t kv_head = first / decode.head_size % decode.kv_heads;
    const std::int64_t row = first / (decode.head_size * decode.kv_heads);
    const std::int64_t batch = row / decode.queries;
    const std::int64_t position = decode.starts[batch] + row % decode.queries;
    if (position >= decode.capacity) {
      return;
    }
    const std::int64_t to = decode.Cached(batch, position, kv_head) + column;
    const std::int64_t key_head = decode.heads + kv_head;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      decode.keys[to + i] = decode.qkv[decode.Packed(row, key_head) + column + i];
      decode.values[to + i] = decode.qkv[decode.Packed(row, key_head + decode.kv_heads) + column + i];
    }
  }
};

// What a warp has gathered: the softmax over its keys, not yet divided by its total.
template <int kChunks>
struct Gathered {
  float maximum = -INFINITY;
  float total = 0;
  float sums[kChunks] = {};
};

// Every kDecodeWarps-th key of the positions up to `position`.
template <int kChunks, typename T>
__device__ Gathered<kChunks> Gather(const Decode<T>& decode, std::int64_t batch, std::int64_t row, std::int64_t head,
                                    std::int64_t position) {
  const int lane = threadIdx.x % kWarp;
  const std::int64_t kv_head = head / (decode.heads / decode.kv_heads);
  const float slope = decode.slopes == nullptr ? 0.0F : decode.slopes[head];
  float query[kChunks];
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int column = chunk * kWarp + lane;
    query[chunk] = column < decode.head_size ? ToFloat(decode.qkv[decode.Packed(row, head) + column]) : 0.0F;
  }
  Gathered<kChunks> gathered;
  const std::int64_t first = decode.window > 0 && position >= decode.window ? position + 1 - decode.window : 0;
  for (std::int64_t key = first + threadIdx.x / kWarp; key <= position; key += kDecodeWarps) {
    const std::int64_t at = decode.Cached(batch, key, kv_head);
    float dot = 0;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int column = chunk * kWarp + lane;
      dot += column < decode.head_size ? query[chunk] * ToFloat(decode.keys[at + column]) : 0.0F;
    }
    float score = decode.scale * WarpSum(dot) + slope * static_cast<float>(key - position);
    score = decode.cap > 0 ? decode.cap * tanhf(score / decode.cap) : score;
    const float higher = fmaxf(gathered.maximum, score);
    const float correction = expf(gathered.maximum - higher);
    const float weight = expf(score - higher);
    gathered.maximum = higher;
    gathered.total = gathered.total * correction + weight;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int column = chunk * kWarp + lane;
      const float value = column < decode.head_size ? ToFloat(decode.values[at + column]) : 0.0F;
      gathered.sums[chunk] = gathered.sums[chunk] * correction + weight * value;
    }
  }
  return gathered;
}

// A block makes one head of one new token: its warps share the keys, then the block joins what they gathered.
template <typename T, int kChunks>
__global__ void __launch_bounds__(kDecodeWarps* kWarp) DecodeKernel(Decode<T> decode) {
  __shared__ float maxima[kDecodeWarps];
  __shared__ float totals[kDecodeWarps];
  __shared__ float sums[kDecodeWarps][kChunks * kWarp];
  const std::int64_t row = blockIdx.x;
  const std::int64_t head = blockIdx.y;
  const std::int64_t batch = row / decode.queries;
  const std::int64_t position = decode.starts[batch] + row % decode.queries;
  const bool inside = position < decode.capacity;
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const Gathered<kChunks> own = Gather<kChunks>(decode, batch, row, head, inside ? position : -1);
  if (lane == 0) {
    maxima[warp] = own.maximum;
    totals[warp] = own.total;
  }
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    sums[warp][chunk * kWarp + lane] = own.sums[chunk];
  }
  __syncthreads();
  float maximum = maxima[0];
  for (int i = 1; i < kDecodeWarps; ++i) {
    maximum = fmaxf(maximum, maxima[i]);
  }
  for (int column = threadIdx.x; column < decode.head_size; column += kDecodeWarps * kWarp) {
    float total = 0;
    float sum = 0;
    for (int i = 0; i < kDecodeWarps; ++i) {
      // A warp without a key has minus infinity here; so has every warp of a padding token.
      const float factor = totals[i] > 0 ? expf(maxima[i] - maximum) : 0.0F;
      total += factor * totals[i];
      sum += factor * sums[i][column];
    }
    decode.out[(row * decode.heads + head) * decode.head_size + column] = FromFloat<T>(inside ? sum / total : 0.0F);
  }
}

template <typename T, int kChunks>
void RunDecode(const CudaContext& context, const DecodeAttentionArgs& args, const Decode<T>& decode) {
  const LaunchShape shape{dim3(static_cast<unsigned>(args.batch * args.queries), static_cast<unsigned>(args.heads)),
                          dim3(kDecodeWarps * kWarp)};
  Launch(context, shape, DecodeKernel<T, kChunks>, decode);
}

}  // namespace

void CudaOps::DoDecodeAttention(const DecodeAttentionArgs& args) {
  if (args.head_size > kMostHeadSize) {
    RefuseSize("DecodeAttention", "elements of a head", args.head_size, kMostHeadSize);
  }
  DispatchFloat(args.qkv.dtype, "DecodeAttention", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Decode<T> decode{args.queries,
                           args.capacity,
                           args.heads,
                           args.kv_heads,
                           static_cast<int>(args.head_size),
                           args.scale,
                           args.window,
                           args.cap,
                           args.slopes.as<float>(),
                           args.starts.as<std::int32_t>(),
                           args.qkv.as<T>(),
                           args.keys.as<T>(),
                           args.values.as<T>(),
                           args.out.as<T>()};
    ForEach(context_, args.batch * args.queries * args.kv_heads * args.head_size, args.head_size % 8 == 0,
            AppendBody<T>{decode});
    if (args.head_size <= 64) {
      RunDecode<T, 2>(context_, args, decode);
    } else if (args.head_size <= 128) {
      RunDecode<T, 4>(context_, args, decode);
    } else {
      RunDecode<T, 8>(context_, args, decode);
    }
  });
}

}  // namespace trireme
