#include <algorithm>

#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

// HeadNormArgs as kernels read them.
template <typename T>
struct HeadRows {
  const T* x;
  const T* query_gain;
  const T* key_gain;
  float* sums;
  T* out;
  const T* grad_out;
  float* products;
  T* grad_x;
  float* partial;  // [blocks, query gains + key gains]
  std::int64_t rows;
  int heads;
  int kv_heads;
  int head_size;
  bool together;
  int parts;
  float epsilon;
  float gain_offset;

  __host__ __device__ int groups() const { return together ? 2 : heads + kv_heads; }
  __host__ __device__ int query_gains() const { return together ? heads * head_size : head_size; }
  __host__ __device__ int key_gains() const { return together ? kv_heads * head_size : head_size; }
  __device__ std::int64_t row_width() const { return static_cast<std::int64_t>(heads + 2 * kv_heads) * head_size; }
  __device__ bool is_key(int group) const { return together ? group == 1 : group >= heads; }
  __device__ int width(int group) const { return is_key(group) ? key_gains() : query_gains(); }
  __device__ std::int64_t begin(std::int64_t row, int group) const {
    return row * row_width() + static_cast<std::int64_t>(group) * (together ? heads * head_size : head_size);
  }
  __device__ float gain(int group, int i) const {
    return ToFloat((is_key(group) ? key_gain : query_gain)[i]) + gain_offset;
  }
  __device__ float reciprocal(std::int64_t row, int group) const {
    const float mean = sums[row * groups() + group] / (static_cast<float>(parts) * static_cast<float>(width(group)));
    return 1.0F / sqrtf(mean + epsilon);
  }
};

constexpr int kThreads = 256;

// Calls use(row, group, lane) with one warp for each group.
template <typename T, typename Use>
__device__ void ForGroups(const HeadRows<T>& args, const Use& use) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kThreads / kWarp);
  const std::int64_t count = args.rows * args.groups();
  for (std::int64_t i = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp; i < count; i += warps) {
    use(i / args.groups(), static_cast<int>(i % args.groups()), static_cast<int>(threadIdx.x % kWarp));
  }
}

// kBackward: sums of grad_out * gain * x instead of squares.
template <typename T, bool kBackward>
__global__ void __launch_bounds__(kThreads) SumsKernel(HeadRows<T> args) {
  ForGroups(args, [&](std::int64_t row, int group, int lane) {
    const std::int64_t first = args.begin(row, group);
    float sum = 0;
    for (int i = lane; i < args.width(group); i += kWarp) {
      const float value = ToFloat(args.x[first + i]);
      sum += kBackward ? ToFloat(args.grad_out[first + i]) * args.gain(group, i) * value : value * value;
    }
    sum = WarpSum(sum);
    if (lane == 0) {
      (kBackward ? args.products : args.sums)[row * args.groups() + group] = sum;
    }
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) ForwardKernel(HeadRows<T> args) {
  ForGroups(args, [&](std::int64_t row, int group, int lane) {
    const std::int64_t first = args.begin(row, group);
    const float scale = args.reciprocal(row, group);
    for (int i = lane; i < args.width(group); i += kWarp) {
      args.out[first + i] = FromFloat<T>(ToFloat(args.x[first + i]) * scale * args.gain(group, i));
    }
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) BackwardKernel(HeadRows<T> args) {
  ForGroups(args, [&](std::int64_t row, int group, int lane) {
    const std::int64_t first = args.begin(row, group);
    const float scale = args.reciprocal(row, group);
    const float count = static_cast<float>(args.parts) * static_cast<float>(args.width(group));
    const float projection = args.products[row * args.groups() + group] * scale * scale / count;
    for (int i = lane; i < args.width(group); i += kWarp) {
      const float g = ToFloat(args.grad_out[first + i]) * args.gain(group, i);
      args.grad_x[first + i] = FromFloat<T>(scale * (g - ToFloat(args.x[first + i]) * projection));
    }
  });
}

// Copies the values of each row.
template <typename T>
struct ValuesBody {
  const T* from;
  T* to;
  std::int64_t values;  // of a row
  std::int64_t row_width;
  template <int kCount>
  __device__ void Run(std::int64_t first) const {
    const std::int64_t at = first / values * row_width + row_width - values + first % values;
    float held[kCount];
    Load(held, from + at);
    Store(to + at, held);
  }
};

// Block b adds up the gradients of the gains over every gridDim.x-th row, a thread for each gain.
template <typename T>
__global__ void __launch_bounds__(kThreads) GainKernel(HeadRows<T> args) {
  const int queries = args.query_gains();
  const int column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= queries + args.key_gains()) {
    return;
  }
  const bool key = column >= queries;
  const int i = key ? column - queries : column;
  const int first_group = args.together ? (key ? 1 : 0) : (key ? args.heads : 0);
  const int last_group = args.together ? first_group + 1 : (key ? args.heads + args.kv_heads : args.heads);
  float sum = 0;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    for (int group = first_group; group < last_group; ++group) {
      const std::int64_t at = args.begin(row, group) + i;
      sum += ToFloat(args.grad_out[at]) * ToFloat(args.x[at]) * args.reciprocal(row, group);
    }
  }
  args.partial[static_cast<std::int64_t>(blockIdx.x) * (queries + args.key_gains()) + column] = sum;
}

template <typename T>
HeadRows<T> RowsOf(const HeadNormArgs& args) {
  return {args.x.as<T>(),
          args.query_gain.as<T>(),
          args.key_gain.as<T>(),
          args.sums.as<float>(),
          args.out.as<T>(),
          args.grad_out.as<T>(),
          args.products.as<float>(),
          args.grad_x.as<T>(),
          nullptr,
          args.x.shape[0],
          static_cast<int>(args.heads),
          static_cast<int>(args.kv_heads),
          static_cast<int>(args.head_size),
          args.together,
          static_cast<int>(args.parts),
          args.epsilon,
          args.gain_offset};
}

LaunchShape ShapeOf(const CudaContext& context, const HeadNormArgs& args) {
  const std::int64_t blocks = CeilDiv(args.x.shape[0] * args.groups(), kThreads / kWarp);
  const std::int64_t most = static_cast<std::int64_t>(context.multiprocessors()) * 16;
  return {dim3(static_cast<unsigned>(std::min(blocks, most))), dim3(kThreads)};
}

template <typename T>
void CopyValues(const CudaContext& context, const HeadNormArgs& args, const Tensor& from, const Tensor& to) {
  const std::int64_t values = args.kv_heads * args.head_size;
  const bool wide = values % 8 == 0 && args.width() % 8 == 0 && Aligned16({from.data, to.data});
  ForEach(context, args.x.shape[0] * values, wide, ValuesBody<T>{from.as<T>(), to.as<T>(), values, args.width()});
}

}  // namespace

void CudaOps::DoHeadNormSums(const HeadNormArgs& args) {
  DispatchFloat(args.x.dtype, "HeadNormForward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(context_, ShapeOf(context_, args), SumsKernel<T, false>, RowsOf<T>(args));
  });
}

void CudaOps::DoHeadNormForward(const HeadNormArgs& args) {
  DispatchFloat(args.x.dtype, "HeadNormForward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(context_, ShapeOf(context_, args), ForwardKernel<T>, RowsOf<T>(args));
    CopyValues<T>(context_, args, args.x, args.out);
  });
}

void CudaOps::DoHeadNormProducts(const HeadNormArgs& args) {
  DispatchFloat(args.x.dtype, "HeadNormBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(context_, ShapeOf(context_, args), SumsKernel<T, true>, RowsOf<T>(args));
  });
}

void CudaOps::DoHeadNormBackward(const HeadNormArgs& args) {
  DispatchFloat(args.x.dtype, "HeadNormBackward", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    HeadRows<T> rows = RowsOf<T>(args);
    const std::int64_t gains = rows.query_gains() + rows.key_gains();
    const std::int64_t blocks = std::min<std::int64_t>(rows.rows, 2 * context_.multiprocessors());
    rows.partial = static_cast<float*>(context_.Scratch(blocks * gains * 4));
    const LaunchShape shape{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(CeilDiv(gains, kThreads))),
                            dim3(kThreads)};
    Launch(context_, shape, GainKernel<T>, rows);
    AddColumnSums(context_, {rows.partial, blocks, gains, rows.query_gains(), args.grad_query_gain.as<float>(),
                             args.grad_key_gain.as<float>()});
    Launch(context_, ShapeOf(context_, args), BackwardKernel<T>, rows);
    if (args.grad_x.data != args.grad_out.data) {
      CopyValues<T>(context_, args, args.grad_out, args.grad_x);
    }
  });
}

}  // namespace trireme
