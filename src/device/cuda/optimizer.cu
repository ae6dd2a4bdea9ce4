#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/split_float.h"
#include "base/stochastic_round.h"
#include "device/cuda/chunks.cuh"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

// A range, or what one block handles of it.
struct UpdateChunkView {
  void* weight;  // fp32, the upper halves of the masters, or fp16
  void* low;     // the lower halves; with fp16 the masters, whole
  void* first;   // moments: fp32, or bf16
  void* second;
  float* gradient;
  std::int64_t count;
  bool half_moments;
  bool fp16;  // of the weights
  float weight_decay;
  float rate;            // of the learning rate
  float gradient_scale;  // of the factors' one
};

// The ranges of one launch. They travel with it: state that lies in host memory is updated in very many pieces, each
// with ranges of its own, and a table on the GPU for each would have to be made and kept.
constexpr int kLaunchRanges = 32;
struct UpdateLaunch {
  UpdateChunkView ranges[kLaunchRanges];
  std::int32_t first_block[kLaunchRanges + 1];  // of each, and the number of all
};

struct UpdateFactors {
  float learning_rate;
  float beta1;
  float beta2;
  float step_size;    // learning rate, with AdamW / (1 - beta1^step)
  float root_second;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float momentum;
  bool nesterov;
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

// Masters of weights: see UpdateRange.
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
__device__ void LoadMasters(float (&masters)[kCount], const Half* /*weight*/, const float* whole) {
  Load(masters, whole);
}

template <int kCount>
__device__ void StoreMasters(Half* weight, float* whole, const float (&masters)[kCount]) {
  Store(weight, masters);
  Store(whole, masters);
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
  if (to.first != nullptr) {
    Store(to.first, first);
  }
  if (to.second != nullptr) {
    Store(to.second, second);
  }
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
  if (to.first != nullptr) {
    StoreHalves(reinterpret_cast<std::uint16_t*>(to.first), firsts);
  }
  if (to.second != nullptr) {
    StoreHalves(reinterpret_cast<std::uint16_t*>(to.second), seconds);
  }
}

// What the optimizer keeps for a weight of type T.
template <typename T>
using Rest = std::conditional_t<std::is_same_v<T, Half>, float, std::uint16_t>;

template <typename T>
struct SplitBody {
  T* high;
  Rest<T>* low;
  const float* from;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
    Load(values, from + first);
    StoreMasters(high + first, low + first, values);
  }
};

template <typename T>
struct JoinBody {
  float* to;
  const T* high;
  const Rest<T>* low;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
    LoadMasters(values, high + first, low + first);
    Store(to + first, values);
  }
};

// The new value of a weight, or of a gradient that becomes a direction; moments are replaced.
template <UpdateKind kKind>
__device__ float Updated(float weight, float g, float& first, float& second, const UpdateFactors& f,
                         const UpdateChunkView& chunk) {
  const float rate = f.step_size * chunk.rate;
  const float decay = 1.0F - f.learning_rate * chunk.rate * chunk.weight_decay;
  if constexpr (kKind == UpdateKind::kAdamW) {
    first = f.beta1 * first + (1.0F - f.beta1) * g;
    second = f.beta2 * second + (1.0F - f.beta2) * g * g;
    return weight * decay - rate * first / (sqrtf(second) * f.root_second + f.epsilon);
  } else if constexpr (kKind == UpdateKind::kLion) {
    const float average = f.beta1 * first + (1.0F - f.beta1) * g;
    first = f.beta2 * first + (1.0F - f.beta2) * g;
    return weight * decay - rate * (average > 0 ? 1.0F : average < 0 ? -1.0F : 0.0F);
  } else if constexpr (kKind == UpdateKind::kSgd) {
    const float decayed = g + chunk.weight_decay * weight;
    first = f.momentum * first + decayed;
    return weight - rate * (f.nesterov ? decayed + f.momentum * first : first);
  } else if constexpr (kKind == UpdateKind::kMomentum) {
    first = f.momentum * first + (1.0F - f.momentum) * g;
    return f.nesterov ? (1.0F - f.momentum) * g + f.momentum * first : first;
  } else if constexpr (kKind == UpdateKind::kRootScale) {
    second = f.beta2 * second + (1.0F - f.beta2) * (g * g + f.epsilon);
    return g / sqrtf(second);
  } else {
    return weight * decay - rate * g;
  }
}

template <int kCount, UpdateKind kKind, typename T, typename Moment>
__device__ void UpdateElements(const UpdateChunkView& chunk, const UpdateFactors& f, int at) {
  T* const weight = static_cast<T*>(chunk.weight) + at;
  Rest<T>* const low = static_cast<Rest<T>*>(chunk.low) + at;
  MomentPlaces<Moment> moments{nullptr, nullptr};
  float gradient[kCount];
  float first[kCount] = {};
  float second[kCount] = {};
  float values[kCount] = {};
  Load(gradient, chunk.gradient + at);
  if constexpr (HasFirstMoment(kKind)) {
    moments.first = static_cast<Moment*>(chunk.first) + at;
    Load(first, moments.first);
  }
  if constexpr (HasSecondMoment(kKind)) {
    moments.second = static_cast<Moment*>(chunk.second) + at;
    Load(second, moments.second);
  }
  if constexpr (ChangesWeights(kKind)) {
    LoadMasters(values, weight, low);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float g = gradient[i] * (f.gradient_scale * chunk.gradient_scale);
    values[i] = Updated<kKind>(values[i], g, first[i], second[i], f, chunk);
  }
  StoreMoments(moments, first, second, f.rounding_key);
  if constexpr (ChangesWeights(kKind)) {
    StoreMasters(weight, low, values);
  } else {
    Store(chunk.gradient + at, values);
  }
}

template <UpdateKind kKind, typename T, typename Moment>
__device__ void UpdateChunk(const UpdateChunkView& chunk, const UpdateFactors& factors, bool wide) {
  const int count = static_cast<int>(chunk.count);
  const int wide_count = wide ? count / 8 * 8 : 0;
  for (int at = threadIdx.x * 8; at < wide_count; at += kChunkThreads * 8) {
    UpdateElements<8, kKind, T, Moment>(chunk, factors, at);
  }
  for (int at = wide_count + threadIdx.x; at < count; at += kChunkThreads) {
    UpdateElements<1, kKind, T, Moment>(chunk, factors, at);
  }
}

template <UpdateKind kKind, typename T>
__device__ void UpdateChunk(const UpdateChunkView& chunk, const UpdateFactors& factors, bool wide) {
  if (chunk.half_moments) {
    UpdateChunk<kKind, T, Bf16>(chunk, factors, wide);
  } else {
    UpdateChunk<kKind, T, float>(chunk, factors, wide);
  }
}

// What the block at hand handles.
__device__ UpdateChunkView OwnChunk(const UpdateLaunch& launch) {
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  int range = 0;
  while (launch.first_block[range + 1] <= block) {
    ++range;
  }
  UpdateChunkView chunk = launch.ranges[range];
  const std::int64_t first = (block - launch.first_block[range]) * kChunk;
  const auto moved = [first](void* memory, bool half) {
    return memory == nullptr ? nullptr : static_cast<char*>(memory) + first * (half ? 2 : 4);
  };
  chunk.weight = moved(chunk.weight, chunk.low != nullptr);
  chunk.low = moved(chunk.low, !chunk.fp16);
  chunk.first = moved(chunk.first, chunk.half_moments);
  chunk.second = moved(chunk.second, chunk.half_moments);
  chunk.gradient += first;
  chunk.count = chunk.count - first < kChunk ? chunk.count - first : kChunk;
  return chunk;
}

template <UpdateKind kKind>
__global__ void __launch_bounds__(kChunkThreads)
    UpdateKernel(const __grid_constant__ UpdateLaunch launch, UpdateFactors factors) {
  const UpdateChunkView chunk = OwnChunk(launch);
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  const bool wide = (address(chunk.weight) | address(chunk.low) | address(chunk.first) | address(chunk.second) |
                     address(chunk.gradient)) %
                        16 ==
                    0;
  if (chunk.fp16) {
    UpdateChunk<kKind, Half>(chunk, factors, wide);
  } else if (chunk.low != nullptr) {
    UpdateChunk<kKind, std::uint16_t>(chunk, factors, wide);
  } else {
    UpdateChunk<kKind, float>(chunk, factors, wide);
  }
}

// A part of a matrix: elements [first, first + count) of it.
struct PartView {
  const float* values;
  std::int64_t first;
  std::int64_t count;
  std::int64_t columns;
};

constexpr int kColumnLanes = 8;

// One block per row; rows outside the part get 0.
__global__ void __launch_bounds__(kChunkThreads) RowSquaresKernel(PartView part, float scale, float* rows) {
  __shared__ double shared[kChunkThreads / kWarp];
  const std::int64_t row_first = static_cast<std::int64_t>(blockIdx.x) * part.columns - part.first;
  const std::int64_t begin = row_first > 0 ? row_first : 0;
  const std::int64_t row_end = row_first + part.columns;
  const std::int64_t end = row_end < part.count ? row_end : part.count;
  double total = 0;
  for (std::int64_t at = begin + threadIdx.x; at < end; at += kChunkThreads) {
    const double value = scale * part.values[at];
    total += value * value;
  }
  total = BlockSum<kChunkThreads / kWarp>(total, shared);
  if (threadIdx.x == 0) {
    rows[blockIdx.x] = static_cast<float>(total);
  }
}

// One block per warp of columns; kColumnLanes of rows at a time, added in a fixed order.
__global__ void ColumnSquaresKernel(PartView part, float scale, float* columns) {
  __shared__ double shared[kColumnLanes][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const std::int64_t last_row = (part.first + part.count + part.columns - 1) / part.columns;
  double total = 0;
  for (std::int64_t row = part.first / part.columns + threadIdx.y; row < last_row; row += kColumnLanes) {
    const std::int64_t at = row * part.columns + column - part.first;
    if (column < part.columns && at >= 0 && at < part.count) {
      const double value = scale * part.values[at];
      total += value * value;
    }
  }
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y == 0 && column < part.columns) {
    for (int lane = 1; lane < kColumnLanes; ++lane) {
      total += shared[lane][threadIdx.x];
    }
    columns[column] = static_cast<float>(total);
  }
}

struct ScaleByAxisBody {
  float* values;
  std::int64_t start;
  std::int64_t columns;
  const float* rows;
  const float* column_values;
  float scale;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t at = start + first + i;
      values[first + i] *= scale * rows[at / columns] * column_values[at % columns];
    }
  }
};

using UpdateLauncher = void (*)(UpdateLaunch, UpdateFactors);

UpdateLauncher KernelOf(UpdateKind kind) {
  switch (kind) {
    case UpdateKind::kAdamW:
      return UpdateKernel<UpdateKind::kAdamW>;
    case UpdateKind::kLion:
      return UpdateKernel<UpdateKind::kLion>;
    case UpdateKind::kSgd:
      return UpdateKernel<UpdateKind::kSgd>;
    case UpdateKind::kMomentum:
      return UpdateKernel<UpdateKind::kMomentum>;
    case UpdateKind::kRootScale:
      return UpdateKernel<UpdateKind::kRootScale>;
    case UpdateKind::kApply:
      return UpdateKernel<UpdateKind::kApply>;
  }
  return nullptr;
}

UpdateLaunch LaunchOf(std::span<const UpdateRange> ranges) {
  UpdateLaunch launch{};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const UpdateRange& range = ranges[i];
    launch.ranges[i] = {
        range.weight.data,
        range.low.data,
        range.first_moment.data,
        range.second_moment.data,
        range.gradient.as<float>(),
        range.weight.count(),
        (range.first_moment.given() ? range.first_moment : range.second_moment).dtype == DType::kBFloat16,
        range.weight.dtype == DType::kFloat16,
        range.weight_decay,
        range.rate,
        range.gradient_scale};
    launch.first_block[i + 1] = launch.first_block[i] + static_cast<std::int32_t>(ChunksOf(range.weight.count()));
  }
  return launch;
}

}  // namespace

void CudaOps::DoUpdate(std::span<const UpdateRange> ranges, const UpdateArgs& args) {
  const double step = static_cast<double>(args.step);
  const bool adam = args.kind == UpdateKind::kAdamW;
  const double first = adam ? 1.0 - std::pow(static_cast<double>(args.beta1), step) : 1.0;
  const double second = adam ? 1.0 - std::pow(static_cast<double>(args.beta2), step) : 1.0;
  const UpdateFactors factors{args.learning_rate,
                              args.beta1,
                              args.beta2,
                              static_cast<float>(args.learning_rate / first),
                              static_cast<float>(1.0 / std::sqrt(second)),
                              args.epsilon,
                              args.momentum,
                              args.nesterov,
                              args.gradient_scale,
                              static_cast<std::uint32_t>(args.step)};
  const auto kernel = KernelOf(args.kind);
  while (!ranges.empty()) {
    const auto part = ranges.first(std::min<std::size_t>(ranges.size(), kLaunchRanges));
    const UpdateLaunch launch = LaunchOf(part);
    const auto blocks = static_cast<unsigned>(launch.first_block[part.size()]);
    if (blocks > 0) {
      Launch(context_, {dim3(blocks), dim3(kChunkThreads)}, kernel, launch, factors);
    }
    ranges = ranges.subspan(part.size());
  }
}

void CudaOps::DoSumSquaresByAxis(const MatrixPart& part, float scale) {
  const PartView view{part.values.as<float>(), part.first, part.values.count(), part.columns};
  const auto rows = static_cast<unsigned>(part.rows.count());
  Launch(context_, {dim3(rows), dim3(kChunkThreads)}, RowSquaresKernel, view, scale, part.rows.as<float>());
  const auto groups = static_cast<unsigned>(CeilDiv(part.columns, std::int64_t{kWarp}));
  Launch(context_, {dim3(groups), dim3(kWarp, kColumnLanes)}, ColumnSquaresKernel, view, scale,
         part.column_values.as<float>());
}

void CudaOps::DoScaleByAxis(const MatrixPart& part, float scale) {
  ForEach(context_, part.values.count(), false,
          ScaleByAxisBody{part.values.as<float>(), part.first, part.columns, part.rows.as<float>(),
                          part.column_values.as<float>(), scale});
}

void CudaOps::DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) {
  const bool wide = Aligned16({high.data, low.data, from.data});
  if (high.dtype == DType::kFloat16) {
    return ForEach(context_, from.count(), wide, SplitBody<Half>{high.as<Half>(), low.as<float>(), from.as<float>()});
  }
  ForEach(context_, from.count(), wide,
          SplitBody<std::uint16_t>{high.as<std::uint16_t>(), low.as<std::uint16_t>(), from.as<float>()});
}

void CudaOps::DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) {
  const bool wide = Aligned16({to.data, high.data, low.data});
  if (high.dtype == DType::kFloat16) {
    return ForEach(context_, to.count(), wide, JoinBody<Half>{to.as<float>(), high.as<Half>(), low.as<float>()});
  }
  ForEach(context_, to.count(), wide,
          JoinBody<std::uint16_t>{to.as<float>(), high.as<std::uint16_t>(), low.as<std::uint16_t>()});
}

}  // namespace trireme
