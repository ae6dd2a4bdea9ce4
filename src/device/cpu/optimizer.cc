#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/optimizer.cc"
#include <hwy/foreach_target.h>

#include <bit>
#include <cmath>

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
  float step_size;    // learning rate / (1 - beta1^step)
  float root_second;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float decay;  // 1 - learning rate * weight decay
  float gradient_scale;
  std::uint32_t rounding_key;  // of moments in bf16
};

Factors FactorsOf(const AdamWArgs& args, float weight_decay) {
  const double step = static_cast<double>(args.step);
  const double first = 1.0 - std::pow(static_cast<double>(args.beta1), step);
  const double second = 1.0 - std::pow(static_cast<double>(args.beta2), step);
  const double rate = args.learning_rate;
  return {.beta1 = args.beta1,
          .beta2 = args.beta2,
          .step_size = static_cast<float>(rate / first),
          .root_second = static_cast<float>(1.0 / std::sqrt(second)),
          .epsilon = args.epsilon,
          .decay = static_cast<float>(1.0 - rate * static_cast<double>(weight_decay)),
          .gradient_scale = args.gradient_scale,
          .rounding_key = static_cast<std::uint32_t>(args.step)};
}

// Masters of weights: see AdamWRange.
float Master(const float* weight, const std::uint16_t* /*low*/, std::int64_t i) { return weight[i]; }

float Master(const BFloat16* weight, const std::uint16_t* low, std::int64_t i) {
  return std::bit_cast<float>(JoinFloat({.high = weight[i].bits, .low = low[i]}));
}

void SetMaster(float* weight, std::uint16_t* /*low*/, std::int64_t i, float value) { weight[i] = value; }

void SetMaster(BFloat16* weight, std::uint16_t* low, std::int64_t i, float value) {
  const FloatHalves halves = SplitFloat(std::bit_cast<std::uint32_t>(value));
  weight[i].bits = halves.high;
  low[i] = halves.low;
}

// Both moments of an element, in either type: see AdamWRange.
struct Moments {
  float first;
  float second;
};

void SetMoments(float& first, float& second, const Moments& moments, std::uint32_t /*key*/) {
  first = moments.first;
  second = moments.second;
}

void SetMoments(BFloat16& first, BFloat16& second, const Moments& moments, std::uint32_t key) {
  const auto m = std::bit_cast<std::uint32_t>(moments.first);
  const auto v = std::bit_cast<std::uint32_t>(moments.second);
  const std::uint32_t random = RoundingBits(m, v, key);
  first.bits = RoundAtRandom(m, random);
  second.bits = RoundAtRandom(v, random >> 16);
}

template <typename T, typename Moment>
void Update(const AdamWRange& range, const Factors& f, std::int64_t begin, std::int64_t end) {
  T* weight = range.weight.as<T>();
  auto* low = range.low.as<std::uint16_t>();
  auto* first = range.first_moment.as<Moment>();
  auto* second = range.second_moment.as<Moment>();
  const float* gradient = range.gradient.as<float>();
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float m = f.beta1 * static_cast<float>(first[i]) + (1.0F - f.beta1) * g;
    const float v = f.beta2 * static_cast<float>(second[i]) + (1.0F - f.beta2) * g * g;
    const float value = Master(weight, low, i) * f.decay - f.step_size * m / (std::sqrt(v) * f.root_second + f.epsilon);
    SetMoments(first[i], second[i], {m, v}, f.rounding_key);
    SetMaster(weight, low, i, value);
  }
}

}  // namespace

void CpuOps::DoAdamW(std::span<const AdamWRange> ranges, const AdamWArgs& args) {
  for (const AdamWRange& range : ranges) {
    const Factors factors = FactorsOf(args, range.weight_decay);
    DispatchWorkingTypes(range.weight.dtype, range.first_moment.dtype, [&](auto weight, auto moment) {
      ParallelRanges(threads_, range.weight.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
        Update<decltype(weight), decltype(moment)>(range, factors, begin, end);
      });
    });
  }
}

void CpuOps::DoSplit(const Tensor& high, const Tensor& low, const Tensor& from) {
  ParallelRanges(threads_, from.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      SetMaster(high.as<BFloat16>(), low.as<std::uint16_t>(), i, from.as<float>()[i]);
    }
  });
}

void CpuOps::DoJoin(const Tensor& to, const Tensor& high, const Tensor& low) {
  ParallelRanges(threads_, to.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      to.as<float>()[i] = Master(high.as<BFloat16>(), low.as<std::uint16_t>(), i);
    }
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
