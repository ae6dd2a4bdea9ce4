#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/head_norm.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// One group of one row.
template <typename T>
struct Group {
  Group(const HeadNormArgs& args, std::int64_t row, std::int64_t group)
      : width(args.group_width(group)),
        first(row * args.width() + args.group_begin(group)),
        statistic(row * args.groups() + group),
        gain((args.is_key(group) ? args.key_gain : args.query_gain).template as<T>()) {}
  std::int64_t width;
  std::int64_t first;
  std::int64_t statistic;
  const T* gain;
};

float Reciprocal(const HeadNormArgs& args, float squares, std::int64_t width) {
  return 1.0F / std::sqrt(squares / static_cast<float>(args.parts * width) + args.epsilon);
}

template <typename T>
float SquaresOf(const T* x, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) {
    const float value = static_cast<float>(x[i]);
    sum += value * value;
  }
  return sum;
}

template <typename T>
void NormGroup(const HeadNormArgs& args, const Group<T>& group) {
  const float scale = Reciprocal(args, args.sums.as<float>()[group.statistic], group.width);
  const T* x = args.x.as<T>() + group.first;
  T* out = args.out.as<T>() + group.first;
  const float offset = args.gain_offset;
#pragma omp simd
  for (std::int64_t i = 0; i < group.width; ++i) {
    out[i] = Narrow<T>(static_cast<float>(x[i]) * scale * (static_cast<float>(group.gain[i]) + offset));
  }
}

template <typename T>
float ProductOf(const HeadNormArgs& args, const Group<T>& group) {
  const T* x = args.x.as<T>() + group.first;
  const T* grad = args.grad_out.as<T>() + group.first;
  const float offset = args.gain_offset;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < group.width; ++i) {
    sum += static_cast<float>(grad[i]) * (static_cast<float>(group.gain[i]) + offset) * static_cast<float>(x[i]);
  }
  return sum;
}

// `gain_sums` are this thread's.
template <typename T>
void BackwardGroup(const HeadNormArgs& args, const Group<T>& group, float* gain_sums) {
  const float scale = Reciprocal(args, args.sums.as<float>()[group.statistic], group.width);
  const float product = args.products.as<float>()[group.statistic];
  const float projection = product * scale * scale / static_cast<float>(args.parts * group.width);
  const T* x = args.x.as<T>() + group.first;
  const T* grad = args.grad_out.as<T>() + group.first;
  T* grad_x = args.grad_x.as<T>() + group.first;
  const float offset = args.gain_offset;
#pragma omp simd
  for (std::int64_t i = 0; i < group.width; ++i) {
    const float value = static_cast<float>(x[i]);
    const float g = static_cast<float>(grad[i]);
    gain_sums[i] += g * value * scale;
    grad_x[i] = Narrow<T>(scale * (g * (static_cast<float>(group.gain[i]) + offset) - value * projection));
  }
}

// The values of a row follow its queries and keys.
template <typename T>
void CopyValues(const HeadNormArgs& args, std::int64_t row, const Tensor& from, const Tensor& to) {
  const std::int64_t first = row * args.width() + (args.heads + args.kv_heads) * args.head_size;
  std::copy_n(from.as<T>() + first, args.kv_heads * args.head_size, to.as<T>() + first);
}

// Calls use(part, row) for each row, in parallel.
template <typename Use>
void ForRows(int threads, const HeadNormArgs& args, const Use& use) {
  ParallelRanges(threads, args.x.shape[0], RowGrain(args.width()), [&](int part, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      use(part, row);
    }
  });
}

void AddTo(float* to, const float* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += from[i];
  }
}

}  // namespace

void CpuOps::DoHeadNormSums(const HeadNormArgs& args) {
  DispatchWorkingType(args.x.dtype, [&](auto type) {
    using T = decltype(type);
    ForRows(threads_, args, [&](int, std::int64_t row) {
      for (std::int64_t i = 0; i < args.groups(); ++i) {
        const Group<T> group(args, row, i);
        args.sums.as<float>()[group.statistic] = SquaresOf(args.x.as<T>() + group.first, group.width);
      }
    });
  });
}

void CpuOps::DoHeadNormForward(const HeadNormArgs& args) {
  DispatchWorkingType(args.x.dtype, [&](auto type) {
    using T = decltype(type);
    ForRows(threads_, args, [&](int, std::int64_t row) {
      for (std::int64_t i = 0; i < args.groups(); ++i) {
        NormGroup(args, Group<T>(args, row, i));
      }
      CopyValues<T>(args, row, args.x, args.out);
    });
  });
}

void CpuOps::DoHeadNormProducts(const HeadNormArgs& args) {
  DispatchWorkingType(args.x.dtype, [&](auto type) {
    using T = decltype(type);
    ForRows(threads_, args, [&](int, std::int64_t row) {
      for (std::int64_t i = 0; i < args.groups(); ++i) {
        const Group<T> group(args, row, i);
        args.products.as<float>()[group.statistic] = ProductOf(args, group);
      }
    });
  });
}

void CpuOps::DoHeadNormBackward(const HeadNormArgs& args) {
  const std::int64_t queries = args.query_gain.count();
  const std::int64_t keys = args.key_gain.count();
  const int parts = PartCount(threads_, args.x.shape[0], RowGrain(args.width()));
  scratch_.Reserve(parts, queries + keys);
  for (int part = 0; part < parts; ++part) {
    std::fill_n(scratch_.of(part), queries + keys, 0.0F);
  }
  DispatchWorkingType(args.x.dtype, [&](auto type) {
    using T = decltype(type);
    ForRows(threads_, args, [&](int part, std::int64_t row) {
      for (std::int64_t i = 0; i < args.groups(); ++i) {
        BackwardGroup(args, Group<T>(args, row, i), scratch_.of(part) + (args.is_key(i) ? queries : 0));
      }
      if (args.grad_x.data != args.grad_out.data) {
        CopyValues<T>(args, row, args.grad_out, args.grad_x);
      }
    });
  });
  for (int part = 0; part < parts; ++part) {
    AddTo(args.grad_query_gain.as<float>(), scratch_.of(part), queries);
    AddTo(args.grad_key_gain.as<float>(), scratch_.of(part) + queries, keys);
  }
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
