// The rows between the products of plain attention: a block has one query of one head.
#include <cmath>

#include "base/random.h"
#include "device/cuda/attention_unfused.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kRowWarps = 4;
constexpr int kRowThreads = kRowWarps * kWarp;

template <typename T>
struct ScoreRows {
  std::int64_t sequence;
  std::int64_t heads;
  float scale;
  std::int64_t window;
  float cap;
  const float* slopes;
  const std::int32_t* document_starts;
  T* weights;
  T* scores;
  float* statistics;
  Dropout dropout;
  std::int64_t all_heads;
  std::int64_t all_positions;

  __device__ std::int64_t FirstKey(std::int64_t batch, std::int64_t query) const {
    const std::int64_t first = window > 0 && query >= window ? query + 1 - window : 0;
    if (document_starts == nullptr) {
      return first;
    }
    const std::int64_t start = document_starts[batch * sequence + query];
    return start < first ? first : (start < query ? start : query);
  }
  // What dropout multiplies the weight of a key by.
  __device__ float Kept(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (dropout.probability <= 0) {
      return 1.0F;
    }
    const std::int64_t line = (batch * all_heads + head) * all_positions + query;
    const auto element = static_cast<std::uint64_t>(dropout.first_element + line * all_positions + key);
    return RandomUniform(dropout.key, element) < dropout.probability ? 0.0F : 1.0F / (1.0F - dropout.probability);
  }
};

struct RowPlace {
  std::int64_t query, head, batch, row;
};

template <typename T>
__device__ RowPlace PlaceOfRow(const ScoreRows<T>& rows) {
  const std::int64_t query = blockIdx.x;
  const std::int64_t head = blockIdx.y;
  const std::int64_t batch = blockIdx.z;
  return {query, head, batch, (batch * rows.heads + head) * rows.sequence + query};
}

__device__ float BlockMax(float value, float* shared) {
  value = WarpMax(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) {
    shared[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  for (int warp = 0; warp < kRowWarps; ++warp) {
    value = fmaxf(value, shared[warp]);
  }
  return value;
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads) SoftmaxKernel(ScoreRows<T> rows) {
  __shared__ float shared[kRowWarps];
  const RowPlace at = PlaceOfRow(rows);
  T* row = rows.weights + at.row * rows.sequence;
  const std::int64_t first = rows.FirstKey(at.batch, at.query);
  const float slope = rows.slopes == nullptr ? 0.0F : rows.slopes[at.head];
  const auto score = [&](std::int64_t key) {
    const float value = ToFloat(row[key]) + slope * static_cast<float>(key - at.query);
    return rows.cap > 0 ? rows.cap * tanhf(value / rows.cap) : value;
  };
  float maximum = -INFINITY;
  for (std::int64_t key = first + threadIdx.x; key <= at.query; key += kRowThreads) {
    maximum = fmaxf(maximum, score(key));
  }
  maximum = BlockMax(maximum, shared);
  float sum = 0;
  for (std::int64_t key = first + threadIdx.x; key <= at.query; key += kRowThreads) {
    sum += expf(score(key) - maximum);
  }
  sum = BlockSum<kRowWarps>(sum, shared);
  if (threadIdx.x == 0) {
    rows.statistics[at.row] = maximum + logf(sum);
  }
  const float factor = 1.0F / sum;
  for (std::int64_t key = threadIdx.x; key < rows.sequence; key += kRowThreads) {
    const bool seen = key >= first && key <= at.query;
    const float weight = seen ? expf(score(key) - maximum) * factor : 0.0F;
    row[key] = FromFloat<T>(weight);
    if (rows.dropout.probability > 0) {
      const float kept = seen ? rows.Kept(at.batch, at.head, at.query, key) : 0.0F;
      rows.scores[at.row * rows.sequence + key] = FromFloat<T>(weight * kept);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads) DropKernel(ScoreRows<T> rows) {
  const RowPlace at = PlaceOfRow(rows);
  for (std::int64_t key = threadIdx.x; key < rows.sequence; key += kRowThreads) {
    const std::int64_t element = at.row * rows.sequence + key;
    rows.scores[element] = FromFloat<T>(ToFloat(rows.weights[element]) * rows.Kept(at.batch, at.head, at.query, key));
  }
}

template <typename T>
__global__ void __launch_bounds__(kRowThreads) SoftmaxGradientKernel(ScoreRows<T> rows) {
  __shared__ float shared[kRowWarps];
  const RowPlace at = PlaceOfRow(rows);
  const T* weights = rows.weights + at.row * rows.sequence;
  T* row = rows.scores + at.row * rows.sequence;
  const std::int64_t first = rows.FirstKey(at.batch, at.query);
  float sum = 0;
  for (std::int64_t key = first + threadIdx.x; key <= at.query; key += kRowThreads) {
    sum += ToFloat(weights[key]) * ToFloat(row[key]) * rows.Kept(at.batch, at.head, at.query, key);
  }
  sum = BlockSum<kRowWarps>(sum, shared);
  const float log_sum = rows.statistics[at.row];
  for (std::int64_t key = threadIdx.x; key < rows.sequence; key += kRowThreads) {
    float gradient = 0;
    if (key >= first && key <= at.query) {
      const float weight = ToFloat(weights[key]);
      const float kept = rows.Kept(at.batch, at.head, at.query, key);
      // The score that became this weight; a weight of 0 has no gradient.
      const float capped = rows.cap > 0 && weight > 0 ? (logf(weight) + log_sum) / rows.cap : 0.0F;
      gradient = rows.scale * weight * (ToFloat(row[key]) * kept - sum) * (1.0F - capped * capped);
    }
    row[key] = FromFloat<T>(gradient);
  }
}

template <typename Function>
void ForRows(const AttentionArgs& args, const Function& run) {
  DispatchFloat(args.qkv.dtype, "plain attention", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const ScoreRows<T> rows{args.sequence,
                            args.heads,
                            args.scale,
                            args.window,
                            args.cap,
                            args.slopes.as<float>(),
                            args.document_starts.as<std::int32_t>(),
                            args.weights.as<T>(),
                            args.scores.as<T>(),
                            args.statistics.as<float>(),
                            args.dropout,
                            args.all_heads,
                            args.all_positions};
    const LaunchShape shape{dim3(static_cast<unsigned>(args.sequence), static_cast<unsigned>(args.heads),
                                 static_cast<unsigned>(args.batch)),
                            dim3(kRowThreads)};
    run(rows, shape);
  });
}

}  // namespace

void SoftmaxScores(const CudaContext& context, const AttentionArgs& args) {
  ForRows(args, [&]<typename T>(const ScoreRows<T>& rows, const LaunchShape& shape) {
    Launch(context, shape, SoftmaxKernel<T>, rows);
  });
}

void DropWeights(const CudaContext& context, const AttentionArgs& args) {
  ForRows(args, [&]<typename T>(const ScoreRows<T>& rows, const LaunchShape& shape) {
    Launch(context, shape, DropKernel<T>, rows);
  });
}

void SoftmaxGradients(const CudaContext& context, const AttentionArgs& args) {
  ForRows(args, [&]<typename T>(const ScoreRows<T>& rows, const LaunchShape& shape) {
    Launch(context, shape, SoftmaxGradientKernel<T>, rows);
  });
}

}  // namespace trireme
