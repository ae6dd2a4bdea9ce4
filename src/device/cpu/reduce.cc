#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/reduce.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kReduceBlock = 1024;

// Sources may be the destination, so a block is summed apart before it is stored.
template <typename T>
void ReduceBlock(T* to, std::span<const void* const> sources, std::int64_t first, std::int64_t count, bool maximum) {
  float result[kReduceBlock];
  const T* initial = static_cast<const T*>(sources[0]) + first;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    result[i] = static_cast<float>(initial[i]);
  }
  for (const void* source : sources.subspan(1)) {
    const T* values = static_cast<const T*>(source) + first;
    if (maximum) {
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(values[i]);
        // "Not at most" also takes a NaN, and a NaN once taken stays.
        result[i] = !(value <= result[i]) && result[i] == result[i] ? value : result[i];
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        result[i] += static_cast<float>(values[i]);
      }
    }
  }
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[first + i] = Narrow<T>(result[i]);
  }
}

// Elements of a range whose squares a thread adds up.
constexpr std::int64_t kSquaresPiece = 1 << 20;

template <typename T>
double SquaresOf(const T* values, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = static_cast<float>(values[i]);
    sum += value * value;
  }
  return sum;
}

}  // namespace

void CpuOps::DoReduce(const Tensor& to, std::span<const void* const> sources, bool maximum) {
  DispatchWorkingType(to.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, to.count(), kElementGrain, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = begin; first < end; first += kReduceBlock) {
        ReduceBlock(to.as<T>(), sources, first, std::min(kReduceBlock, end - first), maximum);
      }
    });
  });
}

void CpuOps::DoBiasGradient(const Tensor& grad_out, const Tensor& grad_bias) {
  const std::int64_t rows = grad_out.shape[0];
  const std::int64_t columns = grad_out.shape[1];
  const std::int64_t grain = RowGrain(columns);
  const int parts = PartCount(threads_, rows, grain);
  scratch_.Reserve(parts, columns);
  DispatchWorkingType(grad_out.dtype, [&](auto type) {
    const auto* grad = grad_out.as<decltype(type)>();
    ParallelRanges(threads_, rows, grain, [&](int part, std::int64_t begin, std::int64_t end) {
      float* sums = scratch_.of(part);
      std::fill_n(sums, columns, 0.0F);
      for (std::int64_t row = begin; row < end; ++row) {
        const auto* values = grad + row * columns;
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i) {
          sums[i] += static_cast<float>(values[i]);
        }
      }
    });
  });
  for (int part = 0; part < parts; ++part) {
    const float* sums = scratch_.of(part);
    for (std::int64_t i = 0; i < columns; ++i) {
      grad_bias.as<float>()[i] += sums[i];
    }
  }
}

void CpuOps::DoSumOfSquares(std::span<const Tensor> ranges, const Tensor& sums) {
  // Ranges are of very different lengths: threads take pieces of them, whose sums are added up in order.
  const auto pieces_of = [](const Tensor& range) { return CeilDiv(range.count(), kSquaresPiece); };
  std::int64_t pieces = 0;
  for (const Tensor& range : ranges) {
    pieces += pieces_of(range);
  }
  scratch_.Reserve(1, 2 * pieces);
  auto* const squares = reinterpret_cast<double*>(scratch_.of(0));
  SharedItems items(pieces);
  ParallelParts(threads_, PartCount(threads_, pieces, 1), [&](int) {
    for (std::int64_t item = 0; items.Take(item);) {
      std::int64_t piece = item;
      const Tensor* range = ranges.data();
      for (; piece >= pieces_of(*range); ++range) {
        piece -= pieces_of(*range);
      }
      const std::int64_t begin = piece * kSquaresPiece;
      DispatchWorkingType(range->dtype, [&](auto type) {
        squares[item] = SquaresOf(range->as<decltype(type)>() + begin, std::min(kSquaresPiece, range->count() - begin));
      });
    }
  });
  const double* next = squares;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    double sum = 0;
    for (std::int64_t piece = 0; piece < pieces_of(ranges[i]); ++piece) {
      sum += *next++;
    }
    sums.as<float>()[i] = static_cast<float>(sum);
  }
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
