#include <algorithm>
#include <bit>
#include <vector>

#include "device/cuda/chunks.cuh"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

struct SquareChunk {
  const void* values;
  std::int64_t count;
  DType dtype;
};

struct ChunkRange {
  std::int64_t first;
  std::int64_t count;
};

template <typename T>
__device__ double SquaresOf(const T* from, std::int64_t count) {
  const bool wide = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  const int wide_count = wide ? static_cast<int>(count / 8 * 8) : 0;
  double total = 0;
  for (int at = threadIdx.x * 8; at < wide_count; at += kChunkThreads * 8) {
    float values[8];
    Load(values, from + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      total += static_cast<double>(values[i]) * values[i];
    }
  }
  for (int at = wide_count + threadIdx.x; at < count; at += kChunkThreads) {
    const double value = ToFloat(from[at]);
    total += value * value;
  }
  return total;
}

__global__ void __launch_bounds__(kChunkThreads) SquaresKernel(const SquareChunk* chunks, double* partial) {
  __shared__ double shared[kChunkThreads / kWarp];
  const SquareChunk chunk = chunks[blockIdx.x];
  double total = 0;
  switch (chunk.dtype) {
    case DType::kBFloat16:
      total = SquaresOf(static_cast<const Bf16*>(chunk.values), chunk.count);
      break;
    case DType::kFloat16:
      total = SquaresOf(static_cast<const Half*>(chunk.values), chunk.count);
      break;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
    case DType::kUInt16:
      total = SquaresOf(static_cast<const float*>(chunk.values), chunk.count);
      break;
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

struct SquareTable {
  std::vector<SquareChunk> chunks;
  std::vector<ChunkRange> ranges;
};

SquareTable SquareChunks(std::span<const Tensor> ranges) {
  SquareTable table;
  for (const Tensor& range : ranges) {
    const auto first = static_cast<std::int64_t>(table.chunks.size());
    for (std::int64_t at = 0; at < range.count(); at += kChunk) {
      table.chunks.push_back(
          {range.as<char>() + at * SizeOf(range.dtype), std::min(kChunk, range.count() - at), range.dtype});
    }
    table.ranges.push_back({first, static_cast<std::int64_t>(table.chunks.size()) - first});
  }
  return table;
}

}  // namespace

void CudaOps::DoSumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) {
  std::vector<std::int64_t> key;
  key.reserve(ranges.size() * 2);
  std::int64_t chunk_count = 0;
  for (const Tensor& range : ranges) {
    key.insert(key.end(), {AddressOf(range), range.count() * 16 + static_cast<std::int64_t>(range.dtype)});
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
