#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/embedding.cc"
#include <hwy/foreach_target.h>

#include <cstring>

#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// A range of columns of `row` added to fp32.
template <typename T>
void AddRow(float* to, const T* row, std::int64_t begin, std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    to[i] += static_cast<float>(row[i]);
  }
}

// Tokens may repeat, so threads share the columns and each walks all tokens in order.
constexpr std::int64_t kColumnGrain = 64;

}  // namespace

void CpuOps::DoEmbeddingForward(const EmbeddingArgs& args) {
  const std::int64_t rows = args.table.shape[0];
  const std::int64_t row_bytes = args.table.shape[1] * SizeOf(args.table.dtype);
  const std::int32_t* tokens = args.tokens.as<std::int32_t>();
  ParallelRanges(threads_, args.out.shape[0], RowGrain(args.table.shape[1]),
                 [&](int, std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     char* out = args.out.as<char>() + i * row_bytes;
                     const std::int64_t row = tokens[i] - args.first_row;
                     if (row >= 0 && row < rows) {
                       std::memcpy(out, args.table.as<char>() + row * row_bytes, static_cast<std::size_t>(row_bytes));
                     } else {
                       std::memset(out, 0, static_cast<std::size_t>(row_bytes));
                     }
                   }
                 });
}

void CpuOps::DoEmbeddingBackward(const EmbeddingArgs& args) {
  const std::int64_t rows = args.grad_table.shape[0];
  const std::int64_t columns = args.grad_table.shape[1];
  const std::int32_t* tokens = args.tokens.as<std::int32_t>();
  DispatchWorkingType(args.grad_out.dtype, [&](auto type) {
    const auto* grad = args.grad_out.as<decltype(type)>();
    ParallelRanges(threads_, columns, kColumnGrain, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < args.grad_out.shape[0]; ++i) {
        const std::int64_t row = tokens[i] - args.first_row;
        if (row >= 0 && row < rows) {
          AddRow(args.grad_table.as<float>() + row * columns, grad + i * columns, begin, end);
        }
      }
    });
  });
}

void CpuOps::Do(const AddPositions<Tensor>& op) {
  const std::int64_t columns = op.x.shape[1];
  const std::int32_t* tokens = op.positions.as<std::int32_t>();
  DispatchWorkingType(op.x.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, op.x.shape[0], RowGrain(columns), [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        T* x = op.x.as<T>() + i * columns;
        const std::int64_t token = tokens == nullptr ? op.first_token + i : tokens[i];
        const T* position = op.table.as<T>() + token % op.table.shape[0] * columns;
#pragma omp simd
        for (std::int64_t c = 0; c < columns; ++c) {
          x[c] = Narrow<T>(static_cast<float>(x[c]) + static_cast<float>(position[c]));
        }
      }
    });
  });
}

void CpuOps::Do(const PositionsBackward<Tensor>& op) {
  const std::int64_t columns = op.grad.shape[1];
  const std::int32_t* tokens = op.positions.as<std::int32_t>();
  DispatchWorkingType(op.grad.dtype, [&](auto type) {
    const auto* grad = op.grad.as<decltype(type)>();
    ParallelRanges(threads_, columns, kColumnGrain, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = 0; i < op.grad.shape[0]; ++i) {
        const std::int64_t token = tokens == nullptr ? op.first_token + i : tokens[i];
        const std::int64_t position = token % op.grad_table.shape[0];
        AddRow(op.grad_table.as<float>() + position * columns, grad + i * columns, begin, end);
      }
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
