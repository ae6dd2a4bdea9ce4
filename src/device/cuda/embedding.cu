#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kRowThreads = 256;

template <typename T>
struct GatherBody {
  const std::int32_t* tokens;
  const T* table;
  T* out;
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t columns;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    const std::int64_t row = tokens[first / columns] - first_row;
    float values[kCount] = {};
    if (row >= 0 && row < rows) {
      Load(values, table + row * columns + first % columns);
    }
    Store(out + first, values);
  }
};

// The row of a table that each token adds to: its own number, or with `period` its position.
struct TableRows {
  const std::int32_t* tokens;
  std::int64_t first_row;
  std::int64_t period;
  __device__ std::int64_t Of(std::int64_t token) const {
    return (period > 0 ? tokens[token] % period : tokens[token]) - first_row;
  }
};

// A block a token. A warp adds to 32 neighbours at a time, which the memory takes as one request.
template <typename T>
__global__ void ScatterKernel(TableRows table, const T* grad_out, float* grad_table, std::int64_t rows,
                              std::int64_t columns) {
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = table.Of(token);
  if (row < 0 || row >= rows) {
    return;
  }
  for (std::int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
    atomicAdd(grad_table + row * columns + column, ToFloat(grad_out[token * columns + column]));
  }
}

// Row of each token within the table, `rows` for those outside, and where the token stands.
struct RowOfTokenBody {
  TableRows table;
  std::uint32_t* keys;
  std::int32_t* places;
  std::int64_t rows;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t row = table.Of(first + i);
      keys[first + i] = static_cast<std::uint32_t>(row >= 0 && row < rows ? row : rows);
      places[first + i] = static_cast<std::int32_t>(first + i);
    }
  }
};

// Tokens sorted by row, their places ascending within a row. The block of the first token of each row adds up all of
// the row's gradients, in that order.
template <typename T>
__global__ void SortedScatterKernel(const std::uint32_t* keys, const std::int32_t* places, std::int64_t tokens,
                                    const T* grad_out, float* grad_table, std::int64_t rows, std::int64_t columns) {
  const std::int64_t first = blockIdx.x;
  const std::uint32_t row = keys[first];
  if (row >= rows || (first > 0 && keys[first - 1] == row)) {
    return;
  }
  for (std::int64_t column = threadIdx.x; column < columns; column += blockDim.x) {
    float total = 0;
    for (std::int64_t i = first; i < tokens && keys[i] == row; ++i) {
      total += ToFloat(grad_out[places[i] * columns + column]);
    }
    grad_table[row * columns + column] += total;
  }
}

template <typename T>
struct AddPositionsBody {
  T* x;
  const T* table;
  const std::int32_t* tokens;  // null: in order from first_token on
  std::int64_t first_token;
  std::int64_t positions;
  std::int64_t columns;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    const std::int64_t row = first / columns;
    const std::int64_t position = (tokens == nullptr ? first_token + row : tokens[row]) % positions;
    float values[kCount];
    float added[kCount];
    Load(values, x + first);
    Load(added, table + position * columns + first % columns);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] += added[i];
    }
    Store(x + first, values);
  }
};

// Indices run over the table; each sums the rows of x that stand at its position, in their order.
template <typename T>
struct PositionsBackwardBody {
  const T* grad;
  float* grad_table;
  std::int64_t first_token;
  std::int64_t tokens;
  std::int64_t positions;
  std::int64_t columns;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    const std::int64_t position = first / columns;
    const std::int64_t column = first % columns;
    float totals[kCount] = {};
    const std::int64_t first_place = (position - first_token % positions + positions) % positions;
#pragma unroll 4
    for (std::int64_t token = first_place; token < tokens; token += positions) {
      float values[kCount];
      Load(values, grad + token * columns + column);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        totals[i] += values[i];
      }
    }
    float sums[kCount];
    Load(sums, grad_table + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums[i] += totals[i];
    }
    Store(grad_table + first, sums);
  }
};

// grad_table[row of token] += grad_out[token].
template <typename T>
struct Scatter {
  TableRows table;
  std::int64_t tokens;
  const T* grad_out;
  float* grad_table;
  std::int64_t rows;
  std::int64_t columns;
};

template <typename T>
void SortedScatter(CudaContext& context, const Scatter<T>& args) {
  const std::int64_t tokens = args.tokens;
  const std::int64_t rows = args.rows;
  const std::int64_t columns = args.columns;
  const std::int64_t list_bytes = RoundUp(tokens * 4, 256);
  const int bits = std::bit_width(static_cast<std::uint64_t>(rows));
  const int token_count = static_cast<int>(tokens);
  std::size_t sort_bytes = 0;
  const std::uint32_t* no_keys = nullptr;
  const std::int32_t* no_places = nullptr;
  CheckCuda(
      cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, no_keys, static_cast<std::uint32_t*>(nullptr), no_places,
                                      static_cast<std::int32_t*>(nullptr), token_count, 0, bits, context.stream()),
      "size the sort of tokens");
  auto* memory = static_cast<char*>(context.Scratch(4 * list_bytes + static_cast<std::int64_t>(sort_bytes)));
  auto* keys = reinterpret_cast<std::uint32_t*>(memory);
  auto* places = reinterpret_cast<std::int32_t*>(memory + list_bytes);
  auto* sorted_keys = reinterpret_cast<std::uint32_t*>(memory + 2 * list_bytes);
  auto* sorted_places = reinterpret_cast<std::int32_t*>(memory + 3 * list_bytes);
  ForEach(context, tokens, false, RowOfTokenBody{args.table, keys, places, rows});
  CheckCuda(cub::DeviceRadixSort::SortPairs(
                memory + 4 * list_bytes, sort_bytes, static_cast<const std::uint32_t*>(keys), sorted_keys,
                static_cast<const std::int32_t*>(places), sorted_places, token_count, 0, bits, context.stream()),
            "sort tokens");
  Launch(context, {dim3(static_cast<unsigned>(tokens)), dim3(kRowThreads)}, SortedScatterKernel<T>, sorted_keys,
         sorted_places, tokens, args.grad_out, args.grad_table, rows, columns);
}

template <typename T>
void AddRows(CudaContext& context, const Scatter<T>& args) {
  if (context.deterministic()) {
    return SortedScatter(context, args);
  }
  Launch(context, {dim3(static_cast<unsigned>(args.tokens)), dim3(kRowThreads)}, ScatterKernel<T>, args.table,
         args.grad_out, args.grad_table, args.rows, args.columns);
}

std::int64_t LastExtent(const Tensor& t) { return t.shape[t.shape.rank() - 1]; }

}  // namespace

void CudaOps::DoEmbeddingForward(const EmbeddingArgs& args) {
  if (args.out.count() == 0) {
    return;
  }
  const std::int64_t columns = LastExtent(args.out);
  const bool wide = columns % 8 == 0 && Aligned16({args.table.data, args.out.data});
  DispatchFloat(args.out.dtype, "EmbeddingForward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForEach(context_, args.out.count(), wide,
            GatherBody<T>{args.tokens.as<std::int32_t>(), args.table.as<T>(), args.out.as<T>(), args.first_row,
                          args.table.count() / columns, columns});
  });
}

void CudaOps::DoEmbeddingBackward(const EmbeddingArgs& args) {
  if (args.grad_out.count() == 0 || args.grad_table.count() == 0) {
    return;
  }
  const std::int64_t columns = LastExtent(args.grad_out);
  const std::int64_t rows = args.grad_table.count() / columns;
  DispatchFloat(args.grad_out.dtype, "EmbeddingBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    AddRows<T>(context_, {.table = {args.tokens.as<std::int32_t>(), args.first_row, 0},
                          .tokens = args.tokens.count(),
                          .grad_out = args.grad_out.as<T>(),
                          .grad_table = args.grad_table.as<float>(),
                          .rows = rows,
                          .columns = columns});
  });
}

void CudaOps::Do(const AddPositions<Tensor>& op) {
  const std::int64_t columns = LastExtent(op.x);
  const bool wide = columns % 8 == 0 && Aligned16({op.x.data, op.table.data});
  DispatchFloat(op.x.dtype, "AddPositions", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForEach(context_, op.x.count(), wide,
            AddPositionsBody<T>{op.x.as<T>(), op.table.as<T>(), op.positions.as<std::int32_t>(), op.first_token,
                                op.table.count() / columns, columns});
  });
}

void CudaOps::Do(const PositionsBackward<Tensor>& op) {
  const std::int64_t columns = LastExtent(op.grad);
  const bool wide = columns % 8 == 0 && Aligned16({op.grad.data, op.grad_table.data});
  DispatchFloat(op.grad.dtype, "PositionsBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (op.positions.given()) {
      const std::int64_t positions = op.grad_table.count() / columns;
      // In the tokens' order, always: every tensor rank makes a copy of this gradient, and atomic sums would differ.
      return SortedScatter<T>(context_, {.table = {op.positions.as<std::int32_t>(), 0, positions},
                                         .tokens = op.positions.count(),
                                         .grad_out = op.grad.as<T>(),
                                         .grad_table = op.grad_table.as<float>(),
                                         .rows = positions,
                                         .columns = columns});
    }
    ForEach(context_, op.grad_table.count(), wide,
            PositionsBackwardBody<T>{op.grad.as<T>(), op.grad_table.as<float>(), op.first_token,
                                     op.grad.count() / columns, op.grad_table.count() / columns, columns});
  });
}

}  // namespace trireme
