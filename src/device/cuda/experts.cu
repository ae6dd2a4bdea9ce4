#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <vector>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

__device__ float SigmoidOf(float x) { return 1.0F / (1.0F + expf(-x)); }

struct SlotBody {
  const std::int32_t* chosen;
  std::uint32_t* keys;
  std::int32_t* slots;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    for (int i = 0; i < kCount; ++i) {
      keys[first + i] = static_cast<std::uint32_t>(chosen[first + i]);
      slots[first + i] = static_cast<std::int32_t>(first + i);
    }
  }
};

// Rows in order: where each slot's is, and where each expert's begin.
struct PositionBody {
  const std::uint32_t* keys;
  const std::int32_t* order;
  std::int32_t* positions;
  std::int32_t* offsets;
  std::int64_t rows;
  std::int64_t experts;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t row = first + i;
      positions[order[row]] = static_cast<std::int32_t>(row);
      const std::int64_t begin = row == 0 ? 0 : static_cast<std::int64_t>(keys[row - 1]) + 1;
      for (std::int64_t expert = begin; expert <= static_cast<std::int64_t>(keys[row]); ++expert) {
        offsets[expert] = static_cast<std::int32_t>(row);
      }
      for (std::int64_t expert = keys[row] + std::int64_t{1}; row + 1 == rows && expert <= experts; ++expert) {
        offsets[expert] = static_cast<std::int32_t>(rows);
      }
    }
  }
};

struct LoadBody {
  const std::int32_t* offsets;
  float* load;
  bool first;
  template <int kCount>
  __device__ void Run(std::int64_t expert) const {
    for (std::int64_t e = expert; e < expert + kCount; ++e) {
      load[e] = (first ? 0.0F : load[e]) + static_cast<float>(offsets[e + 1] - offsets[e]);
    }
  }
};

template <typename T>
struct GatherRowsBody {
  const T* from;
  const std::int32_t* order;
  T* to;
  std::int64_t count;
  std::int64_t columns;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    const std::int64_t token = order[first / columns] / count;
    float values[kCount];
    Load(values, from + token * columns + first % columns);
    Store(to + first, values);
  }
};

template <typename T>
struct CombineRowsBody {
  const T* rows;
  const std::int32_t* positions;
  const T* added;     // may be null
  const float* gate;  // likewise
  T* to;
  std::int64_t count;
  std::int64_t columns;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    const std::int64_t token = first / columns;
    const std::int64_t column = first % columns;
    float sums[kCount];
    Load(sums, rows + positions[token * count] * columns + column);
    for (std::int64_t j = 1; j < count; ++j) {
      float values[kCount];
      Load(values, rows + positions[token * count + j] * columns + column);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        sums[i] += values[i];
      }
    }
    if (added != nullptr) {
      const float share = gate == nullptr ? 1.0F : SigmoidOf(gate[token]);
      float values[kCount];
      Load(values, added + first);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        sums[i] += share * values[i];
      }
    }
    Store(to + first, sums);
  }
};

// A block of one warp for each token.
template <typename T>
__global__ void __launch_bounds__(kWarp) GateBackwardKernel(const T* grad_out, const T* added, const float* gate,
                                                            T* grad_added, T* grad_gate, std::int64_t columns) {
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const float share = SigmoidOf(gate[token]);
  float dot = 0;
  for (std::int64_t c = threadIdx.x; c < columns; c += kWarp) {
    const float grad = ToFloat(grad_out[token * columns + c]);
    dot += grad * ToFloat(added[token * columns + c]);
    grad_added[token * columns + c] = FromFloat<T>(share * grad);
  }
  dot = WarpSum(dot);
  if (threadIdx.x == 0) {
    grad_gate[token] = FromFloat<T>(dot * share * (1 - share));
  }
}

LaunchShape WarpPerToken(std::int64_t tokens) { return {dim3(static_cast<unsigned>(tokens)), dim3(kWarp)}; }

}  // namespace

void CudaOps::Do(const OrderRows<Tensor>& op) {
  const std::int64_t rows = op.chosen.count();
  const std::int64_t experts = op.offsets.count() - 1;
  const std::int64_t list_bytes = RoundUp(rows * 4, 256);
  const int bits = std::bit_width(static_cast<std::uint64_t>(experts));
  const int count = static_cast<int>(rows);
  std::size_t sort_bytes = 0;
  CheckCuda(
      cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, static_cast<const std::uint32_t*>(nullptr),
                                      static_cast<std::uint32_t*>(nullptr), static_cast<const std::int32_t*>(nullptr),
                                      static_cast<std::int32_t*>(nullptr), count, 0, bits, context_.stream()),
      "size the sort of rows");
  auto* memory = static_cast<char*>(context_.Scratch(3 * list_bytes + static_cast<std::int64_t>(sort_bytes)));
  auto* keys = reinterpret_cast<std::uint32_t*>(memory);
  auto* slots = reinterpret_cast<std::int32_t*>(memory + list_bytes);
  auto* sorted = reinterpret_cast<std::uint32_t*>(memory + 2 * list_bytes);
  ForEach(context_, rows, false, SlotBody{op.chosen.as<std::int32_t>(), keys, slots});
  CheckCuda(
      cub::DeviceRadixSort::SortPairs(memory + 3 * list_bytes, sort_bytes, static_cast<const std::uint32_t*>(keys),
                                      sorted, static_cast<const std::int32_t*>(slots), op.order.as<std::int32_t>(),
                                      count, 0, bits, context_.stream()),
      "sort rows");
  ForEach(context_, rows, false,
          PositionBody{sorted, op.order.as<std::int32_t>(), op.positions.as<std::int32_t>(),
                       op.offsets.as<std::int32_t>(), rows, experts});
}

void CudaOps::Do(const AddLoad<Tensor>& op) {
  ForEach(context_, op.load.count(), false, LoadBody{op.offsets.as<std::int32_t>(), op.load.as<float>(), op.first});
}

void CudaOps::Do(const GatherRows<Tensor>& op) {
  const std::int64_t columns = op.from.shape[1];
  DispatchFloat(op.from.dtype, "GatherRows", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForEach(context_, op.to.count(), columns % 8 == 0 && Aligned16({op.from.data, op.to.data}),
            GatherRowsBody<T>{op.from.as<T>(), op.order.as<std::int32_t>(), op.to.as<T>(),
                              op.to.shape[0] / op.from.shape[0], columns});
  });
}

void CudaOps::Do(const CombineRows<Tensor>& op) {
  const std::int64_t columns = op.to.shape[1];
  DispatchFloat(op.to.dtype, "CombineRows", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForEach(context_, op.to.count(), columns % 8 == 0 && Aligned16({op.rows.data, op.added.data, op.to.data}),
            CombineRowsBody<T>{op.rows.as<T>(), op.positions.as<std::int32_t>(), op.added.as<T>(), op.gate.as<float>(),
                               op.to.as<T>(), op.positions.shape[1], columns});
  });
}

void CudaOps::Do(const GateBackward<Tensor>& op) {
  DispatchFloat(op.grad_out.dtype, "GateBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(context_, WarpPerToken(op.grad_out.shape[0]), GateBackwardKernel<T>, op.grad_out.as<T>(), op.added.as<T>(),
           op.gate.as<float>(), op.grad_added.as<T>(), op.grad_gate.as<T>(), op.grad_out.shape[1]);
  });
}

// The host waits for the offsets: work with experts cannot be recorded.
void CudaOps::DoGroupedMatmul(const GroupedMatmulArgs& args) {
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(args.offsets.count()));
  context_.CopyToHost(offsets.data(), args.offsets.data, static_cast<std::size_t>(args.offsets.bytes()));
  MultiplyEachGroup(args, offsets.data());
}

}  // namespace trireme
