#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/split_float.h"
#include "base/stochastic_round.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kChunkThreads = 256;
// Elements that one block handles. A multiple of 8, so that a chunk is aligned where its range is.
constexpr std::int64_t kChunk = 8192;

// A range, or what one block handles of it.
struct AdamWChunk {
  void* weight;        // fp32, or the upper halves of the masters
  std::uint16_t* low;  // beside upper halves alone
  void* first;         // moments: fp32, or bf16
  void* second;
  const float* gradient;
  std::int64_t count;
  bool half_moments;
  float weight_decay;
};

// The ranges of one launch. They travel with it: state that lies in host memory is updated in very many pieces, each
// with ranges of its own, and a table on the GPU for each would have to be made and kept.
constexpr int kLaunchRanges = 32;
struct AdamWLaunch {
  AdamWChunk ranges[kLaunchRanges];
  std::int32_t first_block[kLaunchRanges + 1];  // of each, and the number of all
};

struct AdamWFactors {
  float learning_rate;
  float beta1;
  float beta2;
  float step_size;    // learning rate / (1 - beta1^step)
  float root_second;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float gradient_scale;
  std::uint32_t rounding_key;  // of moments in bf16
};

// kCount halves at `from`; 8 of them are loaded at once, from a multiple of 16 bytes.
template <int kCount>
__device__ void LoadHalves(unsigned (&halves)[kCount], const std::uint16_t* from) {
  if constexpr (kCount == 8) {
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    const unsigned pairs[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      halves[2 * i] = pairs[i] & 0xffffU;
      halves[2 * i + 1] = pairs[i] >> 16;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      halves[i] = from[i];
    }
  }
}

template <int kCount>
__device__ void StoreHalves(std::uint16_t* to, const unsigned (&halves)[kCount]) {
  if constexpr (kCount == 8) {
    *reinterpret_cast<uint4*>(to) = make_uint4(halves[0] | halves[1] << 16, halves[2] | halves[3] << 16,
                                               halves[4] | halves[5] << 16, halves[6] | halves[7] << 16);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[i] = static_cast<std::uint16_t>(halves[i]);
    }
  }
}

// Masters of weights: see AdamWRange.
template <int kCount>
__device__ void LoadMasters(float (&masters)[kCount], const float* weight, const std::uint16_t* /*low*/) {
  Load(masters, weight);
}

template <int kCount>
__device__ void LoadMasters(float (&masters)[kCount], const std::uint16_t* high, const std::uint16_t* low) {
  unsigned upper[kCount];
  unsigned lower[kCount];
  LoadHalves(upper, high);
  LoadHalves(lower, low);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const FloatHalves halves{static_cast<std::uint16_t>(upper[i]), static_cast<std::uint16_t>(lower[i])};
    masters[i] = __uint_as_float(JoinFloat(halves));
  }
}

template <int kCount>
__device__ void StoreMasters(float* weight, std::uint16_t* /*low*/, const float (&masters)[kCount]) {
  Store(weight, masters);
}

template <int kCount>
__device__ void StoreMasters(std::uint16_t* high, std::uint16_t* low, const float (&masters)[kCount]) {
  unsigned upper[kCount];
  unsigned lower[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const FloatHalves halves = SplitFloat(__float_as_uint(masters[i]));
    upper[i] = halves.high;
    lower[i] = halves.low;
  }
  StoreHalves(high, upper);
  StoreHalves(low, lower);
}

template <typename Moment>
struct MomentPlaces {
  Moment* first;
  Moment* second;
};

template <int kCount>
__device__ void StoreMoments(const MomentPlaces<float>& to, const float (&first)[kCount], const float (&second)[kCount],
                             std::uint32_t /*key*/) {
  Store(to.first, first);
  Store(to.second, second);
}

template <int kCount>
__device__ void StoreMoments(const MomentPlaces<Bf16>& to, const float (&first)[kCount], const float (&second)[kCount],
                             std::uint32_t key) {
  unsigned firsts[kCount];
  unsigned seconds[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t m = __float_as_uint(first[i]);
    const std::uint32_t v = __float_as_uint(second[i]);
    const std::uint32_t random = RoundingBits(m, v, key);
    firsts[i] = RoundAtRandom(m, random);
    seconds[i] = RoundAtRandom(v, random >> 16);
  }
  StoreHalves(reinterpret_cast<std::uint16_t*>(to.first), firsts);
  StoreHalves(reinterpret_cast<std::uint16_t*>(to.second), seconds);
}

struct SplitBody {
  std::uint16_t* high;
  std::uint16_t* low;
  const float* from;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
    Load(values, from + first);
    StoreMasters(high + first, low + first, values);
  }
};

struct JoinBody {
  float* to;
  const std::uint16_t* high;
  const std::uint16_t* low;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
    LoadMasters(values, high + first, low + first);
    Store(to + first, values);
  }
};

template <int kCount, typename T, typename Moment>
__device__ void Update(const AdamWChunk& chunk, const AdamWFactors& f, int at) {
  T* const weight = static_cast<T*>(chunk.weight) + at;
  const MomentPlaces<Moment> moments{static_cast<Moment*>(chunk.first) + at, static_cast<Moment*>(chunk.second) + at};
  float gradient[kCount];
  float first[kCount];
  float second[kCount];
  float master[kCount];
  Load(gradient, chunk.gradient + at);
  Load(first, moments.first);
  Load(second, moments.second);
  LoadMasters(master, weight, chunk.low + at);
  const float decay = 1.0F - f.learning_rate * chunk.weight_decay;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    first[i] = f.beta1 * first[i] + (1.0F - f.beta1) * g;
    second[i] = f.beta2 * second[i] + (1.0F - f.beta2) * g * g;
    master[i] = master[i] * decay - f.step_size * first[i] / (sqrtf(second[i]) * f.root_second + f.epsilon);
  }
  StoreMoments(moments, first, second, f.rounding_key);
  StoreMasters(weight, chunk.low + at, master);
}

template <typename T, typename Moment>
__device__ void UpdateChunk(const AdamWChunk& chunk, const AdamWFactors& factors, bool wide) {
  const int count = static_cast<int>(chunk.count);
  const int wide_count = wide ? count / 8 * 8 : 0;
  for (int at = threadIdx.x * 8; at < wide_count; at += kChunkThreads * 8) {
    Update<8, T, Moment>(chunk, factors, at);
  }
  for (int at = wide_count + threadIdx.x; at < count; at += kChunkThreads) {
    Update<1, T, Moment>(chunk, factors, at);
  }
}

template <typename T>
__device__ void UpdateChunk(const AdamWChunk& chunk, const AdamWFactors& factors, bool wide) {
  if (chunk.half_moments) {
    UpdateChunk<T, Bf16>(chunk, factors, wide);
  } else {
    UpdateChunk<T, float>(chunk, factors, wide);
  }
}

// What the block at hand handles.
__device__ AdamWChunk OwnChunk(const AdamWLaunch& launch) {
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  int range = 0;
  while (launch.first_block[range + 1] <= block) {
    ++range;
  }
  AdamWChunk chunk = launch.ranges[range];
  const std::int64_t first = (block - launch.first_block[range]) * kChunk;
  const auto moved = [first](void* memory, bool half) { return static_cast<char*>(memory) + first * (half ? 2 : 4); };
  chunk.weight = moved(chunk.weight, chunk.low != nullptr);
  chunk.low = chunk.low != nullptr ? chunk.low + first : nullptr;
  chunk.first = moved(chunk.first, chunk.half_moments);
  chunk.second = moved(chunk.second, chunk.half_moments);
  chunk.gradient += first;
  chunk.count = chunk.count - first < kChunk ? chunk.count - first : kChunk;
  return chunk;
}

__global__ void __launch_bounds__(kChunkThreads)
    AdamWKernel(const __grid_constant__ AdamWLaunch launch, AdamWFactors factors) {
  const AdamWChunk chunk = OwnChunk(launch);
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  const bool wide = (address(chunk.weight) | address(chunk.low) | address(chunk.first) | address(chunk.second) |
                     address(chunk.gradient)) %
                        16 ==
                    0;
  if (chunk.low != nullptr) {
    UpdateChunk<std::uint16_t>(chunk, factors, wide);
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

AdamWLaunch LaunchOf(std::span<const AdamWRange> ranges) {
  AdamWLaunch launch{};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const AdamWRange& range = ranges[i];
    launch.ranges[i] = {range.weight.data,
                        range.low.as<std::uint16_t>(),
                        range.first_moment.data,
                        range.second_moment.data,
                        range.gradient.as<float>(),
                        range.weight.count(),
                        range.first_moment.dtype == DType::kBFloat16,
                        range.weight_decay};
    launch.first_block[i + 1] = launch.first_block[i] + static_cast<std::int32_t>(ChunksOf(range.weight.count()));
  }
  return launch;
}

}  // namespace

void CudaOps::DoAdamW(std::span<const AdamWRange> ranges, const AdamWArgs& args) {
  const double step = static_cast<double>(args.step);
  const AdamWFactors factors{
      args.learning_rate,
      args.beta1,
      args.beta2,
      static_cast<float>(args.learning_rate / (1.0 - std::pow(static_cast<double>(args.beta1), step))),
      static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(static_cast<double>(args.beta2), step))),
      args.epsilon,
      args.gradient_scale,
      static_cast<std::uint32_t>(args.step)};
  while (!ranges.empty()) {
    const auto part = ranges.first(std::min<std::size_t>(ranges.size(), kLaunchRanges));
    const AdamWLaunch launch = LaunchOf(part);
    const auto blocks = static_cast<unsigned>(launch.first_block[part.size()]);
    if (blocks > 0) {
      Launch(context_, {dim3(blocks), dim3(kChunkThreads)}, AdamWKernel, launch, factors);
    }
    ranges = ranges.subspan(part.size());
  }
}

void CudaOps::DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) {
  ForEach(context_, from.count(), Aligned16({high.data, low.data, from.data}),
          SplitBody{high.as<std::uint16_t>(), low.as<std::uint16_t>(), from.as<float>()});
}

void CudaOps::DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) {
  ForEach(context_, to.count(), Aligned16({to.data, high.data, low.data}),
          JoinBody{to.as<float>(), high.as<std::uint16_t>(), low.as<std::uint16_t>()});
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
