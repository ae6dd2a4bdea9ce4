#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/norm.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// row = x + dropout(branch + bias), rounded as the stored sum, so that a norm recomputed from the sum is the same.
template <typename T>
void SumRow(const ResidualNormArgs& args, std::int64_t row, float* values) {
  const std::int64_t columns = args.x.shape[1];
  const T* x = args.x.as<T>() + row * columns;
  const T* branch = args.branch.as<T>() + row * columns;
  T* sum = args.sum.as<T>() + row * columns;
  const T* bias = args.bias.as<T>();
  if (args.bias.given()) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      values[i] = static_cast<float>(branch[i]) + static_cast<float>(bias[i]);
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      values[i] = static_cast<float>(branch[i]);
    }
  }
  const Dropout dropout = args.dropout;
  if (dropout.probability > 0) {
    const float kept = 1.0F / (1.0F - dropout.probability);
    const std::int64_t token = dropout.tokens.given() ? dropout.tokens.as<std::int32_t>()[row] : row;
    const std::int64_t first = dropout.first_element + token * columns;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      const bool dropped = RandomUniform(dropout.key, static_cast<std::uint64_t>(first + i)) < dropout.probability;
      values[i] = dropped ? 0.0F : values[i] * kept;
    }
  }
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    sum[i] = Narrow<T>(values[i] + static_cast<float>(x[i]));
    values[i] = static_cast<float>(sum[i]);
  }
}

struct RowStatistics {
  float mean;
  float reciprocal_deviation;
};

RowStatistics StatisticsOf(const float* values, std::int64_t columns, NormKind kind, float epsilon) {
  float mean = 0;
  if (SubtractsMean(kind)) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < columns; ++i) {
      sum += values[i];
    }
    mean = sum / static_cast<float>(columns);
  }
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < columns; ++i) {
    const float centred = values[i] - mean;
    squares += centred * centred;
  }
  return {mean, 1.0F / std::sqrt(squares / static_cast<float>(columns) + epsilon)};
}

template <typename T>
void NormRow(const ResidualNormArgs& args, std::int64_t row, const float* values) {
  const std::int64_t rows = args.x.shape[0];
  const std::int64_t columns = args.x.shape[1];
  const RowStatistics statistics = StatisticsOf(values, columns, args.kind, args.epsilon);
  args.statistics.as<float>()[row] = statistics.mean;
  args.statistics.as<float>()[rows + row] = statistics.reciprocal_deviation;
  const T* gamma = args.gamma.as<T>();
  const T* beta = args.beta.as<T>();
  T* normed = args.normed.as<T>() + row * columns;
  const float scale = statistics.reciprocal_deviation;
  const float offset = args.gain_offset;
  if (args.beta.given()) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      const float hat = (values[i] - statistics.mean) * scale;
      normed[i] = Narrow<T>(hat * (static_cast<float>(gamma[i]) + offset) + static_cast<float>(beta[i]));
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      const float hat = (values[i] - statistics.mean) * scale;
      normed[i] = Narrow<T>(hat * (static_cast<float>(gamma[i]) + offset));
    }
  }
}

// Row buffers and column sums of one thread in backward.
struct BackwardBuffers {
  float* hat;
  float* gradient;
  float* gamma_sums;
  float* beta_sums;
};

template <typename T>
void NormBackwardRow(const NormBackwardArgs& args, std::int64_t row, const BackwardBuffers& buffers) {
  const std::int64_t rows = args.x.shape[0];
  const std::int64_t columns = args.x.shape[1];
  const float mean = args.statistics.as<float>()[row];
  const float scale = args.statistics.as<float>()[rows + row];
  const T* grad = args.grad_normed.as<T>() + row * columns;
  const T* x = args.x.as<T>() + row * columns;
  const T* gamma = args.gamma.as<T>();
  const float offset = args.gain_offset;
  float* hat = buffers.hat;
  float* gradient = buffers.gradient;
  float* gamma_sums = buffers.gamma_sums;
  float* beta_sums = buffers.beta_sums;
  // Apart from the sums of the row: GCC 12 makes no vectors of 16 of both together.
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    const float g = static_cast<float>(grad[i]);
    const float value = (static_cast<float>(x[i]) - mean) * scale;
    hat[i] = value;
    gradient[i] = g * (static_cast<float>(gamma[i]) + offset);
    gamma_sums[i] += g * value;
    beta_sums[i] += g;
  }
  float sum = 0;
  float product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (std::int64_t i = 0; i < columns; ++i) {
    sum += gradient[i];
    product += gradient[i] * hat[i];
  }
  const float average = SubtractsMean(args.kind) ? sum / static_cast<float>(columns) : 0.0F;
  const float projection = product / static_cast<float>(columns);
  T* grad_x = args.grad_x.as<T>() + row * columns;
  const T* residual = args.grad_residual.as<T>() + (args.grad_residual.given() ? row * columns : 0);
  if (args.grad_residual.given()) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      const float value = scale * (gradient[i] - average - hat[i] * projection);
      grad_x[i] = Narrow<T>(value + static_cast<float>(residual[i]));
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      grad_x[i] = Narrow<T>(scale * (gradient[i] - average - hat[i] * projection));
    }
  }
}

template <typename T>
void RemakeNormedRow(const NormBackwardArgs& args, std::int64_t row, const float* hat) {
  const std::int64_t columns = args.x.shape[1];
  const T* gamma = args.gamma.as<T>();
  const T* beta = args.beta.as<T>();
  T* normed = args.normed.as<T>() + row * columns;
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    const float shift = args.beta.given() ? static_cast<float>(beta[i]) : 0.0F;
    normed[i] = Narrow<T>(hat[i] * (static_cast<float>(gamma[i]) + args.gain_offset) + shift);
  }
}

void AddTo(float* to, const float* from, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += from[i];
  }
}

}  // namespace

void CpuOps::DoResidualNormForward(const ResidualNormArgs& args) {
  const std::int64_t rows = args.x.shape[0];
  const std::int64_t columns = args.x.shape[1];
  const std::int64_t grain = RowGrain(columns);
  scratch_.Reserve(PartCount(threads_, rows, grain), columns);
  DispatchWorkingType(args.x.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, rows, grain, [&](int part, std::int64_t begin, std::int64_t end) {
      float* values = scratch_.of(part);
      for (std::int64_t row = begin; row < end; ++row) {
        if (args.branch.given()) {
          SumRow<T>(args, row, values);
        } else {
          const T* x = args.x.as<T>() + row * columns;
#pragma omp simd
          for (std::int64_t i = 0; i < columns; ++i) {
            values[i] = static_cast<float>(x[i]);
          }
        }
        if (args.gamma.given()) {
          NormRow<T>(args, row, values);
        }
      }
    });
  });
}

void CpuOps::DoNormBackward(const NormBackwardArgs& args) {
  const std::int64_t rows = args.x.shape[0];
  const std::int64_t columns = args.x.shape[1];
  const std::int64_t grain = RowGrain(columns);
  const int parts = PartCount(threads_, rows, grain);
  scratch_.Reserve(parts, 4 * columns);
  DispatchWorkingType(args.x.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, rows, grain, [&](int part, std::int64_t begin, std::int64_t end) {
      float* memory = scratch_.of(part);
      std::fill_n(memory, 2 * columns, 0.0F);
      const BackwardBuffers buffers{memory + 2 * columns, memory + 3 * columns, memory, memory + columns};
      for (std::int64_t row = begin; row < end; ++row) {
        NormBackwardRow<T>(args, row, buffers);
        if (args.normed.given()) {
          RemakeNormedRow<T>(args, row, buffers.hat);
        }
      }
    });
  });
  for (int part = 0; part < parts; ++part) {
    AddTo(args.grad_gamma.as<float>(), scratch_.of(part), columns);
    if (args.grad_beta.given()) {
      AddTo(args.grad_beta.as<float>(), scratch_.of(part) + columns, columns);
    }
  }
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
