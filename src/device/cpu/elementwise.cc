#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/elementwise.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "base/random_normal.h"
#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

template <typename T>
void DropRange(T* to, const T* from, std::int64_t count, const Dropout& dropout) {
  const float probability = dropout.probability;
  const float kept = 1.0F / (1.0F - probability);
  const std::uint64_t key = dropout.key;
  const auto first = static_cast<std::uint64_t>(dropout.first_element);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(from[i]) * kept;
    const float uniform = RandomUniform(key, first + static_cast<std::uint64_t>(i));
    to[i] = Narrow<T>(uniform < probability ? 0.0F : value);
  }
}

void DrawRange(float* to, std::int64_t count, const NormalDraw& draw, std::int64_t position) {
  const std::uint64_t key = draw.key;
  const float deviation = draw.deviation;
  const auto first = static_cast<std::uint64_t>(position);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = deviation * RandomNormal(key, first + static_cast<std::uint64_t>(i));
  }
}

}  // namespace

void CpuOps::DoFill(const Tensor& t, float value) {
  ParallelRanges(threads_, t.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
    if (value == 0) {
      const std::int64_t element = SizeOf(t.dtype);
      std::memset(t.as<char>() + begin * element, 0, static_cast<std::size_t>((end - begin) * element));
    } else if (t.dtype == DType::kInt32) {
      std::fill(t.as<std::int32_t>() + begin, t.as<std::int32_t>() + end, static_cast<std::int32_t>(value));
    } else {
      std::fill(t.as<float>() + begin, t.as<float>() + end, value);
    }
  });
}

void CpuOps::DoCopy(const Tensor& to, const Tensor& from) {
  if (to.dtype == from.dtype) {
    const std::int64_t element = SizeOf(to.dtype);
    ParallelRanges(threads_, to.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
      std::memcpy(to.as<char>() + begin * element, from.as<char>() + begin * element,
                  static_cast<std::size_t>((end - begin) * element));
    });
    return;
  }
  DispatchWorkingTypes(to.dtype, from.dtype, [&](auto out_type, auto in_type) {
    using Out = decltype(out_type);
    auto* out = to.as<Out>();
    const auto* in = from.as<decltype(in_type)>();
    ParallelRanges(threads_, to.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        out[i] = Narrow<Out>(static_cast<float>(in[i]));
      }
    });
  });
}

void CpuOps::DoAdd(const Tensor& to, const Tensor& from, float factor) {
  DispatchWorkingTypes(to.dtype, from.dtype, [&](auto out_type, auto in_type) {
    using Out = decltype(out_type);
    auto* out = to.as<Out>();
    const auto* in = from.as<decltype(in_type)>();
    ParallelRanges(threads_, to.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        out[i] = Narrow<Out>(static_cast<float>(out[i]) + factor * static_cast<float>(in[i]));
      }
    });
  });
}

void CpuOps::DoScale(const Tensor& t, float factor) {
  DispatchWorkingType(t.dtype, [&](auto type) {
    using T = decltype(type);
    T* values = t.as<T>();
    ParallelRanges(threads_, t.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        values[i] = Narrow<T>(static_cast<float>(values[i]) * factor);
      }
    });
  });
}

void CpuOps::DoCopyBlocks(const BlockCopy& copy) {
  const std::int64_t element = SizeOf(copy.to.dtype);
  ParallelRanges(threads_, copy.rows, RowGrain(copy.columns), [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::memcpy(copy.to.as<char>() + row * copy.to_stride * element,
                  copy.from.as<char>() + row * copy.from_stride * element,
                  static_cast<std::size_t>(copy.columns * element));
    }
  });
}

void CpuOps::DoDrawNormal(const Tensor& to, const NormalDraw& draw) {
  const std::int64_t columns = to.shape[1];
  ParallelRanges(threads_, to.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t row = begin / columns;
      const std::int64_t column = begin % columns;
      const std::int64_t count = std::min(columns - column, end - begin);
      DrawRange(to.as<float>() + begin, count, draw, draw.first_element + row * draw.stride + column);
      begin += count;
    }
  });
}

void CpuOps::DoApplyDropout(const Tensor& out, const Tensor& in, const Dropout& dropout) {
  DispatchWorkingType(in.dtype, [&](auto type) {
    using T = decltype(type);
    if (dropout.tokens.given()) {
      const std::int64_t columns = in.shape[1];
      ParallelRanges(threads_, in.shape[0], RowGrain(columns), [&](int, std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          Dropout part = dropout;
          part.first_element += dropout.tokens.as<std::int32_t>()[row] * columns;
          DropRange(out.as<T>() + row * columns, in.as<T>() + row * columns, columns, part);
        }
      });
      return;
    }
    ParallelRanges(threads_, in.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
      Dropout part = dropout;
      part.first_element += begin;
      DropRange(out.as<T>() + begin, in.as<T>() + begin, end - begin, part);
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
