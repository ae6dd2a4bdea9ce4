#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

// One row of at most kWarps * 32 * kVectors * kWidth<T> columns is held in the registers of kWarps warps.
template <typename T>
struct ForwardRows {
  const T* x;
  const T* branch;
  const T* bias;
  const T* gamma;
  const T* beta;
  T* sum;
  T* normed;
  float* statistics;
  std::int64_t rows;
  int columns;
  float epsilon;
  float gain_offset;
  bool is_rms;
  Dropout dropout;
  float kept_factor;
  const std::int32_t* tokens;  // of dropout; null: rows are in order
  unsigned* largest;           // null, or where magnitudes of normed are noted
};

template <typename T>
struct BackwardRows {
  const T* grad_normed;
  const T* x;
  const float* statistics;
  const T* gamma;
  const T* grad_residual;
  T* grad_x;
  const T* beta;   // null without
  T* normed;       // null, or made again
  float* partial;  // [groups, 2, columns]; null when no parameter wants a gradient
  std::int64_t rows;
  int columns;
  float gain_offset;
  bool is_rms;
  unsigned* largest;  // null, or where magnitudes of grad_x are noted
};

// values += dropout(branch + bias), for kWidth columns of one row.
template <bool kAligned, typename T>
__device__ void AddBranch(float (&values)[kWidth<T>], const ForwardRows<T>& args, std::int64_t row, int column) {
  float added[kWidth<T>];
  LoadColumns<kAligned>(added, args.branch + row * args.columns, column, args.columns);
  if (args.bias != nullptr) {
    float bias[kWidth<T>];
    LoadColumns<kAligned>(bias, args.bias, column, args.columns);
#pragma unroll
    for (int i = 0; i < kWidth<T>; ++i) {
      added[i] += bias[i];
    }
  }
  if (args.dropout.probability > 0) {
    const std::int64_t token = args.tokens == nullptr ? row : args.tokens[row];
    const std::int64_t position = args.dropout.first_element + token * args.columns + column;
#pragma unroll
    for (int i = 0; i < kWidth<T>; ++i) {
      const float draw = RandomUniform(args.dropout.key, static_cast<std::uint64_t>(position + i));
      added[i] = draw < args.dropout.probability ? 0.0F : added[i] * args.kept_factor;
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth<T>; ++i) {
    // What is normed is the sum as it is stored, because backward will read it from there.
    values[i] = Rounded<T>(values[i] + added[i]);
  }
}

template <typename T, int kWarps, int kVectors, bool kAligned>
__global__ void __launch_bounds__(kWarps == 1 ? 128 : kWarps * kWarp) NormForwardKernel(ForwardRows<T> args) {
  __shared__ float shared[kWarps];
  constexpr int kThreads = kWarps * kWarp;
  const int thread = threadIdx.x % kThreads;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / kThreads) + threadIdx.x / kThreads;
  if (row >= args.rows) {
    return;
  }
  const auto column_of = [&](int vector) { return (vector * kThreads + thread) * kWidth<T>; };
  float values[kVectors][kWidth<T>];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    LoadColumns<kAligned>(values[v], args.x + row * args.columns, column_of(v), args.columns);
  }
  if (args.branch != nullptr) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      AddBranch<kAligned>(values[v], args, row, column_of(v));
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      StoreColumns<kAligned>(args.sum + row * args.columns, column_of(v), args.columns, values[v]);
    }
  }
  if (args.gamma == nullptr) {
    return;
  }
  const auto is_column = [&](int vector, int i) { return column_of(vector) + i < args.columns; };
  float total = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int i = 0; i < kWidth<T>; ++i) {
      total += is_column(v, i) ? values[v][i] : 0.0F;
    }
  }
  const float mean = args.is_rms ? 0.0F : BlockSum<kWarps>(total, shared) / static_cast<float>(args.columns);
  float squares = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int i = 0; i < kWidth<T>; ++i) {
      const float difference = is_column(v, i) ? values[v][i] - mean : 0.0F;
      squares += difference * difference;
    }
  }
  const float variance = BlockSum<kWarps>(squares, shared) / static_cast<float>(args.columns);
  const float reciprocal = 1.0F / sqrtf(variance + args.epsilon);
  if (thread == 0 && args.statistics != nullptr) {
    args.statistics[row] = mean;
    args.statistics[args.rows + row] = reciprocal;
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    float gamma[kWidth<T>];
    float beta[kWidth<T>] = {};
    LoadColumns<kAligned>(gamma, args.gamma, column_of(v), args.columns);
    if (args.beta != nullptr) {
      LoadColumns<kAligned>(beta, args.beta, column_of(v), args.columns);
    }
#pragma unroll
    for (int i = 0; i < kWidth<T>; ++i) {
      values[v][i] = (values[v][i] - mean) * reciprocal * (gamma[i] + args.gain_offset) + beta[i];
    }
    StoreColumns<kAligned>(args.normed + row * args.columns, column_of(v), args.columns, values[v]);
  }
  if (args.largest != nullptr) {
    unsigned bits = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      bits = max(bits, LargestOf<T>(values[v], args.columns - column_of(v)));
    }
    NoteLargest(args.largest, bits);
  }
}

// Groups of kWarps warps take every gridDim-th row; each thread keeps the parameter gradients of its own columns.
template <typename T, int kWarps, int kVectors, bool kAligned>
__global__ void __launch_bounds__(kWarps == 1 ? 128 : kWarps * kWarp) NormBackwardKernel(BackwardRows<T> args) {
  __shared__ float shared[kWarps];
  constexpr int kThreads = kWarps * kWarp;
  const int thread = threadIdx.x % kThreads;
  const std::int64_t groups_a_block = blockDim.x / kThreads;
  const std::int64_t group = blockIdx.x * groups_a_block + threadIdx.x / kThreads;
  const auto column_of = [&](int vector) { return (vector * kThreads + thread) * kWidth<T>; };
  const float columns = static_cast<float>(args.columns);
  float grad_gamma[kVectors][kWidth<T>] = {};
  float grad_beta[kVectors][kWidth<T>] = {};
  unsigned bits = 0;
  for (std::int64_t row = group; row < args.rows; row += gridDim.x * groups_a_block) {
    const std::int64_t at = row * args.columns;
    const float mean = args.statistics[row];
    const float reciprocal = args.statistics[args.rows + row];
    float grads[kVectors][kWidth<T>];
    float normal[kVectors][kWidth<T>];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      LoadColumns<kAligned>(grads[v], args.grad_normed + at, column_of(v), args.columns);
      LoadColumns<kAligned>(normal[v], args.x + at, column_of(v), args.columns);
    }
    float sum = 0;
    float dot = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      float gamma[kWidth<T>];
      LoadColumns<kAligned>(gamma, args.gamma, column_of(v), args.columns);
#pragma unroll
      for (int i = 0; i < kWidth<T>; ++i) {
        gamma[i] += args.gain_offset;
        normal[v][i] = (normal[v][i] - mean) * reciprocal;
        grad_gamma[v][i] += grads[v][i] * normal[v][i];
        grad_beta[v][i] += grads[v][i];
        grads[v][i] *= gamma[i];
        sum += grads[v][i];
        dot += grads[v][i] * normal[v][i];
      }
      if (args.normed != nullptr) {
        float normed[kWidth<T>] = {};
        if (args.beta != nullptr) {
          LoadColumns<kAligned>(normed, args.beta, column_of(v), args.columns);
        }
#pragma unroll
        for (int i = 0; i < kWidth<T>; ++i) {
          normed[i] = normal[v][i] * gamma[i] + normed[i];
        }
        StoreColumns<kAligned>(args.normed + at, column_of(v), args.columns, normed);
      }
    }
    sum = args.is_rms ? 0.0F : BlockSum<kWarps>(sum, shared) / columns;
    dot = BlockSum<kWarps>(dot, shared) / columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      float residual[kWidth<T>] = {};
      if (args.grad_residual != nullptr) {
        LoadColumns<kAligned>(residual, args.grad_residual + at, column_of(v), args.columns);
      }
#pragma unroll
      for (int i = 0; i < kWidth<T>; ++i) {
        residual[i] += reciprocal * (grads[v][i] - sum - normal[v][i] * dot);
      }
      StoreColumns<kAligned>(args.grad_x + at, column_of(v), args.columns, residual);
      if (args.largest != nullptr) {
        bits = max(bits, LargestOf<T>(residual, args.columns - column_of(v)));
      }
    }
  }
  if (args.largest != nullptr) {
    NoteLargest(args.largest, bits);
  }
  if (args.partial != nullptr) {
    float* partial = args.partial + group * 2 * args.columns;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < kWidth<T>; ++i) {
        if (column_of(v) + i < args.columns) {
          partial[column_of(v) + i] = grad_gamma[v][i];
          partial[args.columns + column_of(v) + i] = grad_beta[v][i];
        }
      }
    }
  }
}

// Calls run(warps, vectors, aligned) as constants with the smallest of the kernels that hold `columns` of T.
template <int kWarps, int kVectors>
struct Holder {
  static constexpr int kWarpCount = kWarps;
  static constexpr int kVectorCount = kVectors;
};

template <typename T, bool kAligned, typename Function>
bool WithHolder(std::int64_t columns, const Function& run) {
  bool done = false;
  const auto attempt = [&](auto holder) {
    if (!done && columns <= holder.kWarpCount * kWarp * holder.kVectorCount * kWidth<T>) {
      run(holder);
      done = true;
    }
  };
  if constexpr (kAligned) {
    attempt(Holder<1, 1>{});
    attempt(Holder<1, 2>{});
    attempt(Holder<1, 3>{});
    attempt(Holder<4, 1>{});
    attempt(Holder<4, 2>{});
    attempt(Holder<4, 3>{});
  }
  attempt(Holder<8, 2>{});
  attempt(Holder<16, 2>{});
  attempt(Holder<16, 4>{});
  attempt(Holder<32, 8>{});
  return done;
}

// A block is one group, or four where a group is one warp.
template <typename Held>
constexpr int BlockWarps() {
  return Held::kWarpCount == 1 ? 4 : Held::kWarpCount;
}

template <typename T, bool kAligned>
void RunForward(const CudaContext& context, const ForwardRows<T>& args) {
  const bool held = WithHolder<T, kAligned>(args.columns, [&](auto holder) {
    using Held = decltype(holder);
    const std::int64_t rows_a_block = BlockWarps<Held>() / Held::kWarpCount;
    const LaunchShape shape{dim3(static_cast<unsigned>(CeilDiv(args.rows, rows_a_block))),
                            dim3(BlockWarps<Held>() * kWarp)};
    Launch(context, shape, NormForwardKernel<T, Held::kWarpCount, Held::kVectorCount, kAligned>, args);
  });
  if (!held) {
    RefuseSize("ResidualNormForward", "columns", args.columns, 32 * kWarp * 8 * kWidth<T>);
  }
}

template <typename T, bool kAligned>
void RunBackward(CudaContext& context, BackwardRows<T> args, float* grad_gamma, float* grad_beta) {
  const bool held = WithHolder<T, kAligned>(args.columns, [&](auto holder) {
    using Held = decltype(holder);
    const std::int64_t groups_a_block = BlockWarps<Held>() / Held::kWarpCount;
    // About 16 warps for each multiprocessor: more would only lengthen the sum over groups.
    const std::int64_t wanted = static_cast<std::int64_t>(context.multiprocessors()) * 16 / BlockWarps<Held>();
    const std::int64_t blocks = std::min(std::max<std::int64_t>(wanted, 1), CeilDiv(args.rows, groups_a_block));
    const std::int64_t groups = blocks * groups_a_block;
    if (grad_gamma != nullptr || grad_beta != nullptr) {
      args.partial = static_cast<float*>(context.Scratch(groups * 2 * args.columns * 4));
    }
    const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(BlockWarps<Held>() * kWarp)};
    Launch(context, shape, NormBackwardKernel<T, Held::kWarpCount, Held::kVectorCount, kAligned>, args);
    if (args.partial != nullptr) {
      AddColumnSums(context, {args.partial, groups, 2 * args.columns, args.columns, grad_gamma, grad_beta});
    }
  });
  if (!held) {
    RefuseSize("NormBackward", "columns", args.columns, 32 * kWarp * 8 * kWidth<T>);
  }
}

}  // namespace

void CudaOps::DoResidualNormForward(const ResidualNormArgs& args) {
  if (args.x.count() == 0) {
    return;
  }
  const std::int64_t columns = args.x.shape[args.x.shape.rank() - 1];
  DispatchFloat(args.x.dtype, "ResidualNormForward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    ForwardRows<T> given{args.x.as<T>(),
                         args.branch.as<T>(),
                         args.bias.as<T>(),
                         args.gamma.as<T>(),
                         args.beta.as<T>(),
                         args.sum.as<T>(),
                         args.normed.as<T>(),
                         args.statistics.as<float>(),
                         args.x.count() / columns,
                         static_cast<int>(columns),
                         args.epsilon,
                         args.gain_offset,
                         !SubtractsMean(args.kind),
                         args.dropout,
                         1.0F / (1.0F - args.dropout.probability),
                         args.dropout.tokens.as<std::int32_t>(),
                         ClearedLargest(context_, args.largest)};
    const bool aligned = columns % kWidth<T> == 0 && Aligned16({given.x, given.branch, given.bias, given.gamma,
                                                                given.beta, given.sum, given.normed});
    aligned ? RunForward<T, true>(context_, given) : RunForward<T, false>(context_, given);
  });
}

void CudaOps::DoNormBackward(const NormBackwardArgs& args) {
  if (args.x.count() == 0) {
    return;
  }
  const std::int64_t columns = args.x.shape[args.x.shape.rank() - 1];
  DispatchFloat(args.x.dtype, "NormBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const BackwardRows<T> given{args.grad_normed.as<T>(),
                                args.x.as<T>(),
                                args.statistics.as<float>(),
                                args.gamma.as<T>(),
                                args.grad_residual.as<T>(),
                                args.grad_x.as<T>(),
                                args.beta.as<T>(),
                                args.normed.as<T>(),
                                nullptr,
                                args.x.count() / columns,
                                static_cast<int>(columns),
                                args.gain_offset,
                                !SubtractsMean(args.kind),
                                ClearedLargest(context_, args.largest)};
    const bool aligned =
        columns % kWidth<T> == 0 && Aligned16({given.grad_normed, given.x, given.gamma, given.grad_residual,
                                               given.grad_x, given.beta, given.normed});
    auto* grad_gamma = args.grad_gamma.as<float>();
    auto* grad_beta = args.grad_beta.as<float>();
    aligned ? RunBackward<T, true>(context_, given, grad_gamma, grad_beta)
            : RunBackward<T, false>(context_, given, grad_gamma, grad_beta);
  });
}

}  // namespace trireme
