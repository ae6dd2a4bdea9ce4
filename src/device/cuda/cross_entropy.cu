#include <algorithm>
#include <cmath>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kRowWarps = 16;
// A row held in shared memory leaves room for two blocks a multiprocessor: larger ones fill it better.
constexpr int kHeldRowWarps = 24;

// A maximum, and the sum of exp(value - maximum). An infinite maximum must not turn an empty sum into NaN.
struct SoftmaxPart {
  float maximum = -INFINITY;
  float sum = 0;
};

__device__ inline float Anchor(float maximum) { return maximum == -INFINITY ? 0.0F : maximum; }

template <typename T>
__device__ SoftmaxPart Merged(const SoftmaxPart& a, const SoftmaxPart& b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  const float anchor = Anchor(maximum);
  return {maximum, a.sum * ExpFor<T>(a.maximum - anchor) + b.sum * ExpFor<T>(b.maximum - anchor)};
}

// The part of all threads of a block, valid in its first thread.
template <typename T, int kWarps>
__device__ SoftmaxPart BlockMerged(SoftmaxPart part) {
  __shared__ float maxima[kWarps];
  __shared__ float sums[kWarps];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const SoftmaxPart other{__shfl_xor_sync(0xffffffffU, part.maximum, offset),
                            __shfl_xor_sync(0xffffffffU, part.sum, offset)};
    part = Merged<T>(part, other);
  }
  if (threadIdx.x % kWarp == 0) {
    maxima[threadIdx.x / kWarp] = part.maximum;
    sums[threadIdx.x / kWarp] = part.sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kWarps; ++warp) {
      part = Merged<T>(part, SoftmaxPart{maxima[warp], sums[warp]});
    }
  }
  return part;
}

struct Columns {
  std::int64_t rows;
  int columns;
  std::int64_t first;
  int valid;
};

// Adds kCount logits from `column` on to a thread's part; those from `valid` on are padding.
template <typename T, int kCount>
__device__ void AddLogits(SoftmaxPart& part, float (&logits)[kCount], int column, int valid) {
  if (column + kCount > valid) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      logits[i] = column + i < valid ? logits[i] : -INFINITY;
    }
  }
  float maximum = part.maximum;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    maximum = fmaxf(maximum, logits[i]);
  }
  const float anchor = Anchor(maximum);
  part.sum *= ExpFor<T>(part.maximum - anchor);
  part.maximum = maximum;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    part.sum += ExpFor<T>(logits[i] - anchor);
  }
}

// One block a row. kCount: elements a load; rows start at a multiple of it.
template <typename T, int kCount>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    StatisticsKernel(const T* logits, const std::int32_t* targets, float* statistics, Columns shape) {
  const std::int64_t row = blockIdx.x;
  const T* values = logits + row * shape.columns;
  SoftmaxPart part;
#pragma unroll 2
  for (int column = threadIdx.x * kCount; column < shape.valid; column += kRowWarps * kWarp * kCount) {
    float loaded[kCount];
    Load(loaded, values + column);
    AddLogits<T>(part, loaded, column, shape.valid);
  }
  part = BlockMerged<T, kRowWarps>(part);
  if (threadIdx.x == 0) {
    const std::int64_t target = targets[row] - shape.first;
    statistics[row] = part.maximum;
    statistics[shape.rows + row] = part.sum;
    statistics[2 * shape.rows + row] = target >= 0 && target < shape.valid ? ToFloat(values[target]) : 0.0F;
  }
}

// The whole vocabulary's part of one row, and its target's logit, from the parts [parts, 3, rows] of all ranks.
struct WholeRow {
  float maximum;
  float sum;
  float target;
  __device__ float LogSumExp() const { return maximum + logf(sum); }
};

__device__ inline WholeRow Combined(const float* statistics, int parts, std::int64_t rows, std::int64_t row) {
  SoftmaxPart all;
  float target = 0;
  for (int part = 0; part < parts; ++part) {
    const float* own = statistics + part * 3 * rows;
    all = Merged<float>(all, SoftmaxPart{own[row], own[rows + row]});
    target += own[2 * rows + row];
  }
  return {all.maximum, all.sum, target};
}

struct GradientInputs {
  const std::int32_t* targets;
  const float* statistics;
  const float* weights;
  float* losses;
  int parts;
  float scale;
  float z_loss;
  float cap;
};

// What the gradient of a row's logits follows from.
struct RowGradient {
  __device__ RowGradient(const WholeRow& whole, const GradientInputs& inputs, const Columns& shape, std::int64_t row)
      : maximum(whole.maximum), valid(shape.valid), target(inputs.targets[row] - shape.first) {
    const float log_sum = whole.LogSumExp();
    cap_factor = inputs.cap > 0 ? 1.0F / (inputs.cap * inputs.cap) : 0.0F;
    target_factor = inputs.scale * inputs.weights[row];
    factor = target_factor * (1.0F + 2.0F * inputs.z_loss * log_sum) / whole.sum;
    if (threadIdx.x == 0) {
      inputs.losses[row] = log_sum - whole.target;
    }
  }
  __device__ bool masked() const { return target_factor == 0; }
  // Replaces the logits of the columns from `column` on.
  template <typename T, int kCount>
  __device__ void Apply(float (&logits)[kCount], int column) const {
    float slopes[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      slopes[i] = 1.0F - cap_factor * logits[i] * logits[i];
      logits[i] = factor * ExpFor<T>(logits[i] - maximum);
    }
    if ((target >= column && target < column + kCount) || column + kCount > valid) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        logits[i] = column + i < valid ? logits[i] - (column + i == target ? target_factor : 0.0F) : 0.0F;
      }
    }
    if (cap_factor > 0) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        logits[i] = column + i < valid ? logits[i] * slopes[i] : 0.0F;
      }
    }
  }
  float maximum;
  int valid;
  std::int64_t target;  // its column here; elsewhere it is outside of them
  float target_factor;
  float factor;
  float cap_factor;  // 0 without a cap
};

template <typename T, int kCount>
__global__ void __launch_bounds__(kRowWarps* kWarp) GradientKernel(T* logits, GradientInputs inputs, Columns shape) {
  const std::int64_t row = blockIdx.x;
  T* values = logits + row * shape.columns;
  const RowGradient gradient(Combined(inputs.statistics, inputs.parts, shape.rows, row), inputs, shape, row);
#pragma unroll 2
  for (int column = threadIdx.x * kCount; column < shape.columns; column += kRowWarps * kWarp * kCount) {
    float grads[kCount] = {};
    if (!gradient.masked()) {
      Load(grads, values + column);
      gradient.Apply<T>(grads, column);
    }
    Store(values + column, grads);
  }
}

// Statistics and gradient of a row whose first `held_columns` stay in shared memory between the two: they are read
// once, and the rest of a long row, read again so soon, is most often found in the second-level cache.
template <typename T>
__global__ void __launch_bounds__(kHeldRowWarps* kWarp, 2)
    HeldRowKernel(T* logits, float* statistics, GradientInputs inputs, Columns shape, int held_columns) {
  TRIREME_DYNAMIC_SHARED(uint4, held);
  __shared__ WholeRow whole;
  constexpr int kStride = kHeldRowWarps * kWarp * kWidth<T>;
  const std::int64_t row = blockIdx.x;
  T* values = logits + row * shape.columns;
  SoftmaxPart part;
#pragma unroll 4
  for (int column = threadIdx.x * kWidth<T>; column < shape.columns; column += kStride) {
    const uint4 raw = *reinterpret_cast<const uint4*>(values + column);
    if (column < held_columns) {
      held[column / kWidth<T>] = raw;
    }
    float loaded[kWidth<T>];
    Unpack(loaded, raw, T{});
    AddLogits<T>(part, loaded, column, shape.valid);
  }
  part = BlockMerged<T, kHeldRowWarps>(part);
  if (threadIdx.x == 0) {
    const std::int64_t target = inputs.targets[row] - shape.first;
    whole = {part.maximum, part.sum, target >= 0 && target < shape.valid ? ToFloat(values[target]) : 0.0F};
    statistics[row] = whole.maximum;
    statistics[shape.rows + row] = whole.sum;
    statistics[2 * shape.rows + row] = whole.target;
  }
  __syncthreads();
  const RowGradient gradient(whole, inputs, shape, row);
#pragma unroll 4
  for (int column = threadIdx.x * kWidth<T>; column < shape.columns; column += kStride) {
    float grads[kWidth<T>] = {};
    if (!gradient.masked()) {
      const bool is_held = column < held_columns;
      Unpack(grads, is_held ? held[column / kWidth<T>] : *reinterpret_cast<const uint4*>(values + column), T{});
      gradient.Apply<T>(grads, column);
    }
    Store(values + column, grads);
  }
}

struct LossBody {
  const float* statistics;
  float* losses;
  int parts;
  std::int64_t rows;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    for (int i = 0; i < kCount; ++i) {
      const WholeRow whole = Combined(statistics, parts, rows, first + i);
      losses[first + i] = whole.LogSumExp() - whole.target;
    }
  }
};

__global__ void __launch_bounds__(1024)
    LossSumKernel(const float* losses, const float* weights, std::int64_t count, float* sums) {
  __shared__ double shared[32];
  double total = 0;
  double weight = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += 1024) {
    total += static_cast<double>(losses[i]) * weights[i];
    weight += weights[i];
  }
  total = BlockSum<32>(total, shared);
  weight = BlockSum<32>(weight, shared);
  if (threadIdx.x == 0) {
    sums[0] = static_cast<float>(total);
    sums[1] = static_cast<float>(weight);
  }
}

Columns ColumnsOf(const CrossEntropyArgs& args) {
  return {args.targets.count(), static_cast<int>(args.logits.shape[args.logits.shape.rank() - 1]), args.first_column,
          static_cast<int>(args.valid_columns)};
}

template <typename T>
bool IsWide(const CrossEntropyArgs& args) {
  return ColumnsOf(args).columns % kWidth<T> == 0 && Aligned16({args.logits.data});
}

int PartsOf(const CrossEntropyArgs& args, std::int64_t rows) {
  return static_cast<int>(args.statistics.count() / (3 * rows));
}

GradientInputs InputsOf(const CrossEntropyArgs& args, const Columns& shape) {
  return {args.targets.as<std::int32_t>(),
          args.statistics.as<float>(),
          args.weights.as<float>(),
          args.losses.as<float>(),
          PartsOf(args, shape.rows),
          args.scale,
          args.z_loss,
          args.cap};
}

template <typename T>
struct SoftCapBody {
  T* logits;
  float cap;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    float values[kCount];
    Load(values, logits + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = cap * tanhf(values[i] / cap);
    }
    Store(logits + first, values);
  }
};

}  // namespace

void CudaOps::Do(const SoftCap<Tensor>& op) {
  DispatchFloat(op.logits.dtype, "SoftCap", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForEach(context_, op.logits.count(), Aligned16({op.logits.data}), SoftCapBody<T>{op.logits.as<T>(), op.cap});
  });
}

void CudaOps::DoCrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own) {
  const Columns shape = ColumnsOf(args);
  if (shape.rows == 0) {
    return;
  }
  DispatchFloat(args.logits.dtype, "CrossEntropyStatistics", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto kernel = IsWide<T>(args) ? StatisticsKernel<T, kWidth<T>> : StatisticsKernel<T, 1>;
    Launch(context_, {dim3(static_cast<unsigned>(shape.rows)), dim3(kRowWarps * kWarp)}, kernel, args.logits.as<T>(),
           args.targets.as<std::int32_t>(), own.as<float>(), shape);
  });
}

void CudaOps::DoCrossEntropy(const CrossEntropyArgs& args) {
  // Two rows in the shared memory of a multiprocessor of compute capability 9.0, so that one is read while the other is
  // written: whole rows of up to 58,000 logits in bf16, and the beginnings of longer ones.
  constexpr std::int64_t kMostHeldBytes = 113 * 1024;
  const Columns shape = ColumnsOf(args);
  const std::int64_t row_bytes = shape.columns * SizeOf(args.logits.dtype);
  const std::int64_t held_bytes = std::min(row_bytes, kMostHeldBytes);
  const bool wide = row_bytes % 16 == 0 && Aligned16({args.logits.data});
  if (!wide || context_.capability() < 90) {
    return Ops::DoCrossEntropy(args);
  }
  DispatchFloat(args.logits.dtype, "CrossEntropy", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(context_,
           {dim3(static_cast<unsigned>(shape.rows)), dim3(kHeldRowWarps * kWarp), static_cast<std::size_t>(held_bytes)},
           HeldRowKernel<T>, args.logits.as<T>(), args.statistics.as<float>(), InputsOf(args, shape), shape,
           static_cast<int>(held_bytes / SizeOf(args.logits.dtype)));
  });
}

void CudaOps::DoCrossEntropyGradient(const CrossEntropyArgs& args) {
  const Columns shape = ColumnsOf(args);
  if (shape.rows == 0) {
    return;
  }
  const GradientInputs inputs = InputsOf(args, shape);
  DispatchFloat(args.logits.dtype, "CrossEntropyGradient", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto kernel = IsWide<T>(args) ? GradientKernel<T, kWidth<T>> : GradientKernel<T, 1>;
    Launch(context_, {dim3(static_cast<unsigned>(shape.rows)), dim3(kRowWarps * kWarp)}, kernel, args.logits.as<T>(),
           inputs, shape);
  });
}

void CudaOps::DoCrossEntropyEvaluation(const CrossEntropyArgs& args) {
  const std::int64_t rows = args.losses.count();
  if (rows > 0) {
    ForEach(context_, rows, false,
            LossBody{args.statistics.as<float>(), args.losses.as<float>(), PartsOf(args, rows), rows});
  }
}

void CudaOps::DoLossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums) {
  Launch(context_, {dim3(1), dim3(1024)}, LossSumKernel, losses.as<float>(), weights.as<float>(), losses.count(),
         sums.as<float>());
}

}  // namespace trireme
