#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kChunkThreads = 256;
// Elements that one block handles. A multiple of 8, so that a chunk is aligned where its range is.
constexpr std::int64_t kChunk = 8192;

struct AdamWChunk {
  float* master;
  float* first;
  float* second;
  const float* gradient;
  void* weight;
  std::int32_t count;
  std::int32_t weight_is_bf16;
  float weight_decay;
};

struct AdamWFactors {
  float learning_rate;
  float beta1;
  float beta2;
  float step_size;    // learning rate / (1 - beta1^step)
  float root_second;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float gradient_scale;
};

template <int kCount, typename T>
__device__ void Update(const AdamWChunk& chunk, T* weight, const AdamWFactors& f, int at) {
  float gradient[kCount];
  float first[kCount];
  float second[kCount];
  float master[kCount];
  Load(gradient, chunk.gradient + at);
  Load(first, static_cast<const float*>(chunk.first) + at);
  Load(second, static_cast<const float*>(chunk.second) + at);
  Load(master, static_cast<const float*>(chunk.master) + at);
  const float decay = 1.0F - f.learning_rate * chunk.weight_decay;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    first[i] = f.beta1 * first[i] + (1.0F - f.beta1) * g;
    second[i] = f.beta2 * second[i] + (1.0F - f.beta2) * g * g;
    master[i] = master[i] * decay - f.step_size * first[i] / (sqrtf(second[i]) * f.root_second + f.epsilon);
  }
  Store(chunk.first + at, first);
  Store(chunk.second + at, second);
  Store(chunk.master + at, master);
  if (static_cast<void*>(weight) != static_cast<void*>(chunk.master + at)) {
    Store(weight, master);
  }
}

template <typename T>
__device__ void UpdateChunk(const AdamWChunk& chunk, const AdamWFactors& factors, bool wide) {
  auto* weight = static_cast<T*>(chunk.weight);
  const int wide_count = wide ? chunk.count / 8 * 8 : 0;
  for (int at = threadIdx.x * 8; at < wide_count; at += kChunkThreads * 8) {
    Update<8>(chunk, weight + at, factors, at);
  }
  for (int at = wide_count + threadIdx.x; at < chunk.count; at += kChunkThreads) {
    Update<1>(chunk, weight + at, factors, at);
  }
}

__global__ void __launch_bounds__(kChunkThreads) AdamWKernel(const AdamWChunk* chunks, AdamWFactors factors) {
  const AdamWChunk chunk = chunks[blockIdx.x];
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  const bool wide = (address(chunk.master) | address(chunk.first) | address(chunk.second) | address(chunk.gradient) |
                     address(chunk.weight)) %
                        16 ==
                    0;
  if (chunk.weight_is_bf16 != 0) {
    UpdateChunk<Bf16>(chunk, factors, wide);
  } else {
    UpdateChunk<float>(chunk, factors, wide);
  }
}

struct SquareChunk {
  const float* values;
  std::int64_t count;
};

struct ChunkRange {
  std::int64_t first;
  std::int64_t count;
};

__global__ void __launch_bounds__(kChunkThreads) SquaresKernel(const SquareChunk* chunks, double* partial) {
  __shared__ double shared[kChunkThreads / kWarp];
  const SquareChunk chunk = chunks[blockIdx.x];
  const bool wide = reinterpret_cast<std::uintptr_t>(chunk.values) % 16 == 0;
  const int wide_count = wide ? static_cast<int>(chunk.count / 8 * 8) : 0;
  double total = 0;
  for (int at = threadIdx.x * 8; at < wide_count; at += kChunkThreads * 8) {
    float values[8];
    Load(values, chunk.values + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      total += static_cast<double>(values[i]) * values[i];
    }
  }
  for (int at = wide_count + threadIdx.x; at < chunk.count; at += kChunkThreads) {
    total += static_cast<double>(chunk.values[at]) * chunk.values[at];
  }
  total = BlockSum<kChunkThreads / kWarp>(total, shared);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = total;
  }
}

__global__ void __launch_bounds__(kChunkThreads)
    SumPartialsKernel(const ChunkRange* ranges, const double* partial, float* sums) {
  __shared__ double shared[kChunkThreads / kWarp];
  const ChunkRange range = ranges[blockIdx.x];
  double total = 0;
  for (std::int64_t i = threadIdx.x; i < range.count; i += kChunkThreads) {
    total += partial[range.first + i];
  }
  total = BlockSum<kChunkThreads / kWarp>(total, shared);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = static_cast<float>(total);
  }
}

std::int64_t AddressOf(const Tensor& t) { return std::bit_cast<std::int64_t>(t.data); }

std::vector<AdamWChunk> AdamWChunks(std::span<const AdamWRange> ranges) {
  std::vector<AdamWChunk> chunks;
  for (const AdamWRange& range : ranges) {
    for (std::int64_t at = 0; at < range.master.count(); at += kChunk) {
      chunks.push_back({range.master.as<float>() + at, range.first_moment.as<float>() + at,
                        range.second_moment.as<float>() + at, range.gradient.as<float>() + at,
                        range.weight.as<char>() + at * SizeOf(range.weight.dtype),
                        static_cast<std::int32_t>(std::min(kChunk, range.master.count() - at)),
                        range.weight.dtype == DType::kBFloat16 ? 1 : 0, range.weight_decay});
    }
  }
  return chunks;
}

struct SquareTable {
  std::vector<SquareChunk> chunks;
  std::vector<ChunkRange> ranges;
};

SquareTable SquareChunks(std::span<const Tensor> ranges) {
  SquareTable table;
  for (const Tensor& range : ranges) {
    const auto first = static_cast<std::int64_t>(table.chunks.size());
    for (std::int64_t at = 0; at < range.count(); at += kChunk) {
      table.chunks.push_back({range.as<float>() + at, std::min(kChunk, range.count() - at)});
    }
    table.ranges.push_back({first, static_cast<std::int64_t>(table.chunks.size()) - first});
  }
  return table;
}

std::int64_t ChunksOf(std::int64_t count) { return CeilDiv(count, kChunk); }

}  // namespace

void CudaOps::DoAdamW(std::span<const AdamWRange> ranges, const AdamWArgs& args) {
  std::vector<std::int64_t> key;
  key.reserve(ranges.size() * 8);
  std::int64_t chunk_count = 0;
  for (const AdamWRange& range : ranges) {
    key.insert(key.end(),
               {AddressOf(range.master), AddressOf(range.first_moment), AddressOf(range.second_moment),
                AddressOf(range.gradient), AddressOf(range.weight), range.master.count(),
                static_cast<std::int64_t>(range.weight.dtype), std::bit_cast<std::int32_t>(range.weight_decay)});
    chunk_count += ChunksOf(range.master.count());
  }
  if (chunk_count == 0) {
    return;
  }
  const void* table = adamw_tables_.Find(key);
  if (table == nullptr) {
    const std::vector<AdamWChunk> chunks = AdamWChunks(ranges);
    table = adamw_tables_.Insert(key, chunks.data(), chunks.size() * sizeof(AdamWChunk));
  }
  const double step = static_cast<double>(args.step);
  const AdamWFactors factors{
      args.learning_rate,
      args.beta1,
      args.beta2,
      static_cast<float>(args.learning_rate / (1.0 - std::pow(static_cast<double>(args.beta1), step))),
      static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(static_cast<double>(args.beta2), step))),
      args.epsilon,
      args.gradient_scale};
  Launch(context_, {dim3(static_cast<unsigned>(chunk_count)), dim3(kChunkThreads)}, AdamWKernel,
         static_cast<const AdamWChunk*>(table), factors);
}

void CudaOps::DoSumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) {
  std::vector<std::int64_t> key;
  key.reserve(ranges.size() * 2);
  std::int64_t chunk_count = 0;
  for (const Tensor& range : ranges) {
    key.insert(key.end(), {AddressOf(range), range.count()});
    chunk_count += ChunksOf(range.count());
  }
  const std::int64_t chunk_bytes = chunk_count * static_cast<std::int64_t>(sizeof(SquareChunk));
  const void* found = square_tables_.Find(key);
  if (found == nullptr) {
    const SquareTable table = SquareChunks(ranges);
    std::vector<char> contents(static_cast<std::size_t>(chunk_bytes) + table.ranges.size() * sizeof(ChunkRange));
    std::copy_n(reinterpret_cast<const char*>(table.chunks.data()), chunk_bytes, contents.data());
    std::copy_n(reinterpret_cast<const char*>(table.ranges.data()), table.ranges.size() * sizeof(ChunkRange),
                contents.data() + chunk_bytes);
    found = square_tables_.Insert(key, contents.data(), contents.size());
  }
  const auto* table = static_cast<const char*>(found);
  auto* partial = static_cast<double*>(context_.Scratch(std::max<std::int64_t>(chunk_count, 1) * 8));
  if (chunk_count > 0) {
    Launch(context_, {dim3(static_cast<unsigned>(chunk_count)), dim3(kChunkThreads)}, SquaresKernel,
           reinterpret_cast<const SquareChunk*>(table), partial);
  }
  Launch(context_, {dim3(static_cast<unsigned>(ranges.size())), dim3(kChunkThreads)}, SumPartialsKernel,
         reinterpret_cast<const ChunkRange*>(table + chunk_bytes), partial, sums.as<float>());
}

}  // namespace trireme
