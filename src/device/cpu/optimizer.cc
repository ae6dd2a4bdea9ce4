#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/optimizer.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "base/split_float.h"
#include "base/stochastic_round.h"
#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// What is the same for every element of a range.
struct Factors {
  float beta1;
  float beta2;
  float step_size;    // rate, with AdamW / (1 - beta1^step)
  float root_second;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float decay;         // 1 - rate * weight decay
  float weight_decay;  // sgd's, which joins the gradient
  float momentum;
  bool nesterov;
  float gradient_scale;
  std::uint32_t rounding_key;  // of moments in bf16
};

Factors FactorsOf(const UpdateArgs& args, const UpdateRange& range) {
  const double step = static_cast<double>(args.step);
  const bool adam = args.kind == UpdateKind::kAdamW;
  const double first = adam ? 1.0 - std::pow(static_cast<double>(args.beta1), step) : 1.0;
  const double second = adam ? 1.0 - std::pow(static_cast<double>(args.beta2), step) : 1.0;
  const double rate = static_cast<double>(args.learning_rate) * static_cast<double>(range.rate);
  return {.beta1 = args.beta1,
          .beta2 = args.beta2,
          .step_size = static_cast<float>(rate / first),
          .root_second = static_cast<float>(1.0 / std::sqrt(second)),
          .epsilon = args.epsilon,
          .decay = static_cast<float>(1.0 - rate * static_cast<double>(range.weight_decay)),
          .weight_decay = range.weight_decay,
          .momentum = args.momentum,
          .nesterov = args.nesterov,
          .gradient_scale = args.gradient_scale * range.gradient_scale,
          .rounding_key = static_cast<std::uint32_t>(args.step)};
}

// Masters of weights: see UpdateRange.
float Master(const float* weight, const std::uint16_t* /*low*/, std::int64_t i) { return weight[i]; }

float Master(const Float16* /*weight*/, const float* master, std::int64_t i) { return master[i]; }

float Master(const BFloat16* weight, const std::uint16_t* low, std::int64_t i) {
  return std::bit_cast<float>(JoinFloat({.high = weight[i].bits, .low = low[i]}));
}

void SetMaster(float* weight, std::uint16_t* /*low*/, std::int64_t i, float value) { weight[i] = value; }

void SetMaster(Float16* weight, float* master, std::int64_t i, float value) {
  master[i] = value;
  weight[i] = Float16(value);
}

void SetMaster(BFloat16* weight, std::uint16_t* low, std::int64_t i, float value) {
  const FloatHalves halves = SplitFloat(std::bit_cast<std::uint32_t>(value));
  weight[i].bits = halves.high;
  low[i] = halves.low;
}

// What the optimizer keeps for a weight of type T.
template <typename T>
using Rest = std::conditional_t<std::is_same_v<T, Float16>, float, std::uint16_t>;

// Everything about one element is a float of its own, never a struct, and what a kind of update keeps is known at
// compile time: GCC makes vector code of a loop only so.
template <bool kKept, typename Moment>
float OldMoment(const Moment* moments, std::int64_t i) {
  if constexpr (kKept) {
    return static_cast<float>(moments[i]);
  } else {
    return 0;
  }
}

// Moments are fp32 or bf16: see UpdateRange.
template <UpdateKind kKind>
void SetMoments(float* first, float* second, std::int64_t i, float m, float v, std::uint32_t /*key*/) {
  if constexpr (HasFirstMoment(kKind)) {
    first[i] = m;
  }
  if constexpr (HasSecondMoment(kKind)) {
    second[i] = v;
  }
}

template <UpdateKind kKind>
void SetMoments(BFloat16* first, BFloat16* second, std::int64_t i, float m, float v, std::uint32_t key) {
  const auto m_bits = std::bit_cast<std::uint32_t>(m);
  const auto v_bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t random = RoundingBits(m_bits, v_bits, key);
  if constexpr (HasFirstMoment(kKind)) {
    first[i].bits = RoundAtRandom(m_bits, random);
  }
  if constexpr (HasSecondMoment(kKind)) {
    second[i].bits = RoundAtRandom(v_bits, random >> 16);
  }
}

float Sign(float value) { return value > 0 ? 1.0F : value < 0 ? -1.0F : 0.0F; }

// The new first moment; `g` is the gradient.
template <UpdateKind kKind>
float FirstMoment(float old, float weight, float g, const Factors& f) {
  if constexpr (kKind == UpdateKind::kAdamW) {
    return f.beta1 * old + (1.0F - f.beta1) * g;
  } else if constexpr (kKind == UpdateKind::kLion) {
    return f.beta2 * old + (1.0F - f.beta2) * g;
  } else if constexpr (kKind == UpdateKind::kSgd) {
    return f.momentum * old + (g + f.weight_decay * weight);
  } else if constexpr (kKind == UpdateKind::kMomentum) {
    return f.momentum * old + (1.0F - f.momentum) * g;
  } else {
    return 0;
  }
}

template <UpdateKind kKind>
float SecondMoment(float old, float g, const Factors& f) {
  if constexpr (kKind == UpdateKind::kAdamW) {
    return f.beta2 * old + (1.0F - f.beta2) * g * g;
  } else if constexpr (kKind == UpdateKind::kRootScale) {
    return f.beta2 * old + (1.0F - f.beta2) * (g * g + f.epsilon);
  } else {
    return 0;
  }
}

// What becomes of the weight, or of the gradient where weights do not change; `m` and `v` are the new moments.
template <UpdateKind kKind>
float NewValue(float weight, float g, float old_first, float m, float v, const Factors& f) {
  if constexpr (kKind == UpdateKind::kAdamW) {
    return weight * f.decay - f.step_size * m / (std::sqrt(v) * f.root_second + f.epsilon);
  } else if constexpr (kKind == UpdateKind::kLion) {
    return weight * f.decay - f.step_size * Sign(f.beta1 * old_first + (1.0F - f.beta1) * g);
  } else if constexpr (kKind == UpdateKind::kSgd) {
    return weight - f.step_size * (f.nesterov ? (g + f.weight_decay * weight) + f.momentum * m : m);
  } else if constexpr (kKind == UpdateKind::kMomentum) {
    return f.nesterov ? (1.0F - f.momentum) * g + f.momentum * m : m;
  } else if constexpr (kKind == UpdateKind::kRootScale) {
    return g / std::sqrt(v);
  } else {
    return weight * f.decay - f.step_size * g;
  }
}

template <UpdateKind kKind, typename T, typename Moment>
void UpdateElements(const UpdateRange& range, const Factors& f, std::int64_t begin, std::int64_t end) {
  T* weight = range.weight.as<T>();
  auto* low = range.low.as<Rest<T>>();
  Moment* first = HasFirstMoment(kKind) ? range.first_moment.as<Moment>() : nullptr;
  Moment* second = HasSecondMoment(kKind) ? range.second_moment.as<Moment>() : nullptr;
  float* gradient = range.gradient.as<float>();
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float old = OldMoment<HasFirstMoment(kKind)>(first, i);
    const float g = gradient[i] * f.gradient_scale;
    const float v = SecondMoment<kKind>(OldMoment<HasSecondMoment(kKind)>(second, i), g, f);
    if constexpr (ChangesWeights(kKind)) {
      const float w = Master(weight, low, i);
      const float m = FirstMoment<kKind>(old, w, g, f);
      SetMoments<kKind>(first, second, i, m, v, f.rounding_key);
      SetMaster(weight, low, i, NewValue<kKind>(w, g, old, m, v, f));
    } else {
      const float m = FirstMoment<kKind>(old, 0, g, f);
      SetMoments<kKind>(first, second, i, m, v, f.rounding_key);
      gradient[i] = NewValue<kKind>(0, g, old, m, v, f);
    }
  }
}

using UpdateFunction = void (*)(const UpdateRange&, const Factors&, std::int64_t, std::int64_t);

template <typename T, typename Moment>
UpdateFunction FunctionOf(UpdateKind kind) {
  switch (kind) {
    case UpdateKind::kAdamW:
      return UpdateElements<UpdateKind::kAdamW, T, Moment>;
    case UpdateKind::kLion:
      return UpdateElements<UpdateKind::kLion, T, Moment>;
    case UpdateKind::kSgd:
      return UpdateElements<UpdateKind::kSgd, T, Moment>;
    case UpdateKind::kMomentum:
      return UpdateElements<UpdateKind::kMomentum, T, Moment>;
    case UpdateKind::kRootScale:
      return UpdateElements<UpdateKind::kRootScale, T, Moment>;
    case UpdateKind::kApply:
      return UpdateElements<UpdateKind::kApply, T, Moment>;
  }
  return nullptr;
}

// Calls function(row, first column, values, count) for each row's part.
template <typename Function>
void ForEachRow(const MatrixPart& part, std::int64_t begin, std::int64_t end, const Function& function) {
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t row = (part.first + at) / part.columns;
    const std::int64_t column = (part.first + at) % part.columns;
    const std::int64_t count = std::min(part.columns - column, end - at);
    function(row, column, part.values.as<float>() + at, count);
    at += count;
  }
}

}  // namespace

void CpuOps::DoUpdate(std::span<const UpdateRange> ranges, const UpdateArgs& args) {
  for (const UpdateRange& range : ranges) {
    const Factors factors = FactorsOf(args, range);
    const Tensor& moment_of = range.first_moment.given() ? range.first_moment : range.second_moment;
    const DType moments = moment_of.given() ? moment_of.dtype : DType::kFloat32;
    DispatchWorkingType(range.weight.dtype, [&](auto weight) {
      using T = decltype(weight);
      const UpdateFunction function =
          moments == DType::kBFloat16 ? FunctionOf<T, BFloat16>(args.kind) : FunctionOf<T, float>(args.kind);
      ParallelRanges(threads_, range.weight.count(), kElementGrain,
                     [&](int, std::int64_t begin, std::int64_t end) { function(range, factors, begin, end); });
    });
  }
}

// Columns are summed in groups, each over all rows in their order, so that threads change no bit.
void CpuOps::DoSumSquaresByAxis(const MatrixPart& part, float scale) {
  constexpr std::int64_t kGroup = 256;
  const std::int64_t count = part.values.count();
  std::fill_n(part.rows.as<float>(), part.rows.count(), 0.0F);
  ForEachRow(part, 0, count, [&](std::int64_t row, std::int64_t, const float* values, std::int64_t columns) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < columns; ++i) {
      const double value = scale * values[i];
      sum += value * value;
    }
    part.rows.as<float>()[row] = static_cast<float>(sum);
  });
  ParallelRanges(threads_, CeilDiv(part.columns, kGroup), 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t first = group * kGroup;
      const std::int64_t last = std::min(first + kGroup, part.columns);
      double sums[kGroup] = {};
      ForEachRow(part, 0, count, [&](std::int64_t, std::int64_t column, const float* values, std::int64_t columns) {
        for (std::int64_t i = std::max(first, column); i < std::min(last, column + columns); ++i) {
          const double value = scale * values[i - column];
          sums[i - first] += value * value;
        }
      });
      for (std::int64_t i = first; i < last; ++i) {
        part.column_values.as<float>()[i] = static_cast<float>(sums[i - first]);
      }
    }
  });
}

void CpuOps::DoScaleByAxis(const MatrixPart& part, float scale) {
  const float* rows = part.rows.as<float>();
  const float* column_values = part.column_values.as<float>();
  ParallelRanges(threads_, part.values.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
    ForEachRow(part, begin, end, [&](std::int64_t row, std::int64_t column, float* values, std::int64_t columns) {
      const float factor = scale * rows[row];
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i) {
        values[i] *= factor * column_values[column + i];
      }
    });
  });
}

void CpuOps::DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) {
  const auto split = [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, from.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
      const float* const values = from.as<float>();
      T* const weight = high.as<T>();
      auto* const rest = low.as<Rest<T>>();
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        SetMaster(weight, rest, i, values[i]);
      }
    });
  };
  high.dtype == DType::kFloat16 ? split(Float16{}) : split(BFloat16{});
}

void CpuOps::DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) {
  const auto join = [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, to.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
      float* const values = to.as<float>();
      const T* const weight = high.as<T>();
      const auto* const rest = low.as<Rest<T>>();
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        values[i] = Master(weight, rest, i);
      }
    });
  };
  high.dtype == DType::kFloat16 ? join(Float16{}) : join(BFloat16{});
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
