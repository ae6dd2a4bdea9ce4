#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/cross_entropy.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"
#include "device/cpu/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

template <typename T>
float MaximumOf(const T* values, std::int64_t count) {
  float maximum = kMinusInfinity;
#pragma omp simd reduction(max : maximum)
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(values[i]);
    maximum = value > maximum ? value : maximum;
  }
  return maximum;
}

// A row of padding alone has the maximum -infinity and the sum 0.
template <typename T>
float SumOfExponentials(const T* values, std::int64_t count, float maximum) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    sum += VectorExp(static_cast<float>(values[i]) - maximum);
  }
  return sum;
}

struct RowLoss {
  float log_sum;  // logarithm of the sum of exponentials over the whole vocabulary
  float loss;
};

RowLoss Combine(const CrossEntropyArgs& args, std::int64_t n, std::int64_t row) {
  const std::int64_t parts = args.statistics.count() / (3 * n);
  const float* statistics = args.statistics.as<float>();
  float maximum = kMinusInfinity;
  for (std::int64_t part = 0; part < parts; ++part) {
    maximum = std::max(maximum, statistics[part * 3 * n + row]);
  }
  float sum = 0;
  float target = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const float* of_part = statistics + part * 3 * n;
    sum += of_part[n + row] * std::exp(of_part[row] - maximum);
    target += of_part[2 * n + row];
  }
  const float log_sum = maximum + std::log(sum);
  return {log_sum, log_sum - target};
}

template <typename T>
void GradientRow(const CrossEntropyArgs& args, std::int64_t row, float log_sum) {
  const std::int64_t columns = args.logits.shape[1];
  const std::int64_t valid = args.valid_columns;
  T* logits = args.logits.as<T>() + row * columns;
  const float factor = args.scale * args.weights.as<float>()[row];
  std::fill(logits + valid, logits + columns, T{});
  if (factor == 0) {
    std::fill(logits, logits + valid, T{});
    return;
  }
  const std::int64_t target = args.targets.as<std::int32_t>()[row] - args.first_column;
  const bool here = target >= 0 && target < valid;
  const float softmax_factor = factor * (1.0F + 2.0F * args.z_loss * log_sum);
  // The slope of the cap at a capped logit.
  const float cap_factor = args.cap > 0 ? 1.0F / (args.cap * args.cap) : 0.0F;
  const float target_logit = here ? static_cast<float>(logits[target]) : 0.0F;
  const float target_value =
      (softmax_factor * VectorExp(target_logit - log_sum) - factor) * (1.0F - cap_factor * target_logit * target_logit);
#pragma omp simd
  for (std::int64_t i = 0; i < valid; ++i) {
    const float logit = static_cast<float>(logits[i]);
    logits[i] = Narrow<T>(softmax_factor * VectorExp(logit - log_sum) * (1.0F - cap_factor * logit * logit));
  }
  if (here) {
    logits[target] = Narrow<T>(target_value);
  }
}

}  // namespace

void CpuOps::Do(const SoftCap<Tensor>& op) {
  const float reciprocal = 1.0F / op.cap;
  DispatchWorkingType(op.logits.dtype, [&](auto type) {
    using T = decltype(type);
    T* values = op.logits.as<T>();
    ParallelRanges(threads_, op.logits.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        values[i] = Narrow<T>(op.cap * VectorTanh(static_cast<float>(values[i]) * reciprocal));
      }
    });
  });
}

void CpuOps::DoCrossEntropyStatistics(const CrossEntropyArgs& args, const Tensor& own) {
  const std::int64_t n = args.logits.shape[0];
  const std::int64_t columns = args.logits.shape[1];
  float* statistics = own.as<float>();
  DispatchWorkingType(args.logits.dtype, [&](auto type) {
    const auto* logits = args.logits.as<decltype(type)>();
    ParallelRanges(threads_, n, RowGrain(columns), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const auto* values = logits + row * columns;
        const std::int64_t target = args.targets.as<std::int32_t>()[row] - args.first_column;
        const bool here = target >= 0 && target < args.valid_columns;
        const float maximum = MaximumOf(values, args.valid_columns);
        statistics[row] = maximum;
        statistics[n + row] = SumOfExponentials(values, args.valid_columns, maximum);
        statistics[2 * n + row] = here ? static_cast<float>(values[target]) : 0.0F;
      }
    });
  });
}

void CpuOps::DoCrossEntropyGradient(const CrossEntropyArgs& args) {
  const std::int64_t n = args.logits.shape[0];
  DispatchWorkingType(args.logits.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, n, RowGrain(args.logits.shape[1]), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const RowLoss loss = Combine(args, n, row);
        args.losses.as<float>()[row] = loss.loss;
        GradientRow<T>(args, row, loss.log_sum);
      }
    });
  });
}

void CpuOps::DoCrossEntropyEvaluation(const CrossEntropyArgs& args) {
  const std::int64_t n = args.losses.count();
  for (std::int64_t row = 0; row < n; ++row) {
    args.losses.as<float>()[row] = Combine(args, n, row).loss;
  }
}

void CpuOps::DoLossSum(const Tensor& losses, const Tensor& weights, const Tensor& sums) {
  double loss_sum = 0;
  double weight_sum = 0;
  for (std::int64_t i = 0; i < losses.count(); ++i) {
    const double weight = weights.as<float>()[i];
    loss_sum += weight * losses.as<float>()[i];
    weight_sum += weight;
  }
  sums.as<float>()[0] = static_cast<float>(loss_sum);
  sums.as<float>()[1] = static_cast<float>(weight_sum);
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
