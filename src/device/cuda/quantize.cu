// fp8 copies of matrices. One pass finds the largest magnitude, unless the matrix came with it; a second one reads
// 128 x 128 tiles and stores each as it lies, transposed, or both ways, and adds up columns where that is asked for.
// With a guess of the scale one pass does both, and the copy is made again where the guess was wrong.
#include <cuda_fp8.h>

#include <algorithm>

#include "device/cuda/clear_memory.h"
#include "device/cuda/cuda_ops.h"
#include "device/cuda/kernels.cuh"

namespace trireme {
namespace {

constexpr int kTile = 128;
constexpr int kThreads = 256;
constexpr int kRowsOfThread = 4;      // neighbours, so that their bytes make one word of the transpose
constexpr int kColumnsOfThread = 16;  // 16 bytes of fp8
constexpr int kThreadsOfRow = kTile / kColumnsOfThread;
constexpr int kWordsOfColumn = kTile / kRowsOfThread;
static_assert(kThreads == kThreadsOfRow * kWordsOfColumn);

// Where the word of rows [4 * word, 4 * word + 4) of a column lies in shared memory. The shifts spread what a warp
// writes, and later reads, over all banks.
__device__ int PlaceOf(int column, int word) {
  return column * (kWordsOfColumn + 1) + column / kColumnsOfThread * kRowsOfThread + word;
}
constexpr int kSharedWords = kTile * (kWordsOfColumn + 1) + kThreadsOfRow * kRowsOfThread;

template <typename T>
__global__ void LargestMagnitudeKernel(const T* from, std::int64_t count, bool wide, unsigned* largest) {
  constexpr int kCount = 8;
  unsigned bits = 0;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t pieces = wide ? count / kCount : 0;
#pragma unroll 4
  for (std::int64_t piece = thread; piece < pieces; piece += stride) {
    float values[kCount];
    Load(values, from + piece * kCount);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      bits = max(bits, Magnitude(values[i]));
    }
  }
  for (std::int64_t i = pieces * kCount + thread; i < count; i += stride) {
    bits = max(bits, Magnitude(ToFloat(from[i])));
  }
  NoteLargest(largest, bits);
}

// What was noted, in every thread of a block of kThreads.
__device__ unsigned NotedLargest(const unsigned* largest) {
  static_assert(kThreads == kLargestSlots);
  __shared__ unsigned of_warps[kThreads / kWarp];
  const unsigned bits = __reduce_max_sync(0xffffffffU, largest[threadIdx.x]);
  if (threadIdx.x % kWarp == 0) {
    of_warps[threadIdx.x / kWarp] = bits;
  }
  __syncthreads();
  unsigned all = 0;
#pragma unroll
  for (int warp = 0; warp < kThreads / kWarp; ++warp) {
    all = max(all, of_warps[warp]);
  }
  return all;
}

// As ScaleForFloat8 of base/float8.h, by the bits of the magnitude.
template <__nv_fp8_interpretation_t kFormat>
__device__ float ScaleOf(unsigned magnitude) {
  constexpr int kTop = kFormat == __NV_E4M3 ? 8 : 15;
  constexpr int kMostExponent = 100;
  constexpr unsigned kMantissa = 0x7fffffU;
  constexpr unsigned kThreeQuarters = 0x600000U;  // the mantissa of 1.75
  if (magnitude == 0) {
    return 1.0F;
  }
  if (magnitude >= 0x7f800000U) {
    return __uint_as_float(0x7fc00000U);
  }
  const int exponent = static_cast<int>(magnitude >> 23) - 127 + ((magnitude & kMantissa) > kThreeQuarters ? 1 : 0);
  const int clamped = min(max(exponent - kTop, -kMostExponent), kMostExponent);
  return __uint_as_float(static_cast<unsigned>(clamped + 127) << 23);
}

template <__nv_fp8_interpretation_t kFormat>
__device__ unsigned Encode4(float a, float b, float c, float d) {
  const unsigned low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, kFormat);
  const unsigned high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, kFormat);
  return low | (high << 16);
}

struct QuantizeTiles {
  int rows;
  int columns;
  unsigned* largest;
  unsigned char* out_rows;     // may be null
  unsigned char* out_columns;  // may be null
  float* scale;
  float* partial;  // [tiles of rows, columns]: sums of columns; may be null
  float* guess;    // null, or the scale to try: the magnitude is then found on the way
  float* used;     // the guess that was tried
};

// The sums of a tile's columns to its row of `partial`. A thread has kRowsOfThread rows of kColumnsOfThread columns,
// and zeroes outside the matrix.
__device__ void StoreColumnSums(const float (&values)[kRowsOfThread][kColumnsOfThread], const QuantizeTiles& tiles) {
  __shared__ float of_warps[kThreads / kWarp][kTile];
  const int group = static_cast<int>(threadIdx.x) % kThreadsOfRow;
#pragma unroll
  for (int c = 0; c < kColumnsOfThread; ++c) {
    float sum = 0;
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      sum += values[r][c];
    }
#pragma unroll
    for (int offset = kThreadsOfRow; offset < kWarp; offset *= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, offset);
    }
    if (threadIdx.x % kWarp < kThreadsOfRow) {
      of_warps[threadIdx.x / kWarp][group * kColumnsOfThread + c] = sum;
    }
  }
  __syncthreads();
  const int column = static_cast<int>(blockIdx.x) * kTile + static_cast<int>(threadIdx.x);
  if (threadIdx.x < kTile && column < tiles.columns) {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
      sum += of_warps[warp][threadIdx.x];
    }
    tiles.partial[static_cast<std::int64_t>(blockIdx.y) * tiles.columns + column] = sum;
  }
}

// What a thread has of a tile: kRowsOfThread rows of kColumnsOfThread columns.
struct TilePart {
  int group;
  int word;
  int column;
  int row;
  bool inside;
};

__device__ TilePart OwnPart(const QuantizeTiles& tiles, int tile_column, int tile_row) {
  const int group = static_cast<int>(threadIdx.x) % kThreadsOfRow;
  const int word = static_cast<int>(threadIdx.x) / kThreadsOfRow;
  const int column = tile_column * kTile + group * kColumnsOfThread;
  const int row = tile_row * kTile + word * kRowsOfThread;
  return {group, word, column, row, column < tiles.columns && row < tiles.rows};
}

template <typename T>
__device__ void LoadPart(float (&values)[kRowsOfThread][kColumnsOfThread], const T* from, const QuantizeTiles& tiles,
                         const TilePart& part) {
  if (part.inside) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      Load(values[r], from + static_cast<std::int64_t>(part.row + r) * tiles.columns + part.column);
    }
  }
}

// Stores a tile as it lies, transposed, or both ways. `words` has kSharedWords.
template <__nv_fp8_interpretation_t kFormat>
__device__ void StoreTile(float (&values)[kRowsOfThread][kColumnsOfThread], const QuantizeTiles& tiles,
                          const TilePart& part, float scale, unsigned* words) {
  const float inverse = 1.0F / scale;
  if (part.inside) {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
#pragma unroll
      for (int c = 0; c < kColumnsOfThread; ++c) {
        values[r][c] *= inverse;
      }
    }
    if (tiles.out_rows != nullptr) {
#pragma unroll
      for (int r = 0; r < kRowsOfThread; ++r) {
        const float* v = values[r];
        *reinterpret_cast<uint4*>(tiles.out_rows + static_cast<std::int64_t>(part.row + r) * tiles.columns +
                                  part.column) =
            make_uint4(Encode4<kFormat>(v[0], v[1], v[2], v[3]), Encode4<kFormat>(v[4], v[5], v[6], v[7]),
                       Encode4<kFormat>(v[8], v[9], v[10], v[11]), Encode4<kFormat>(v[12], v[13], v[14], v[15]));
      }
    }
    if (tiles.out_columns != nullptr) {
#pragma unroll
      for (int c = 0; c < kColumnsOfThread; ++c) {
        words[PlaceOf(part.group * kColumnsOfThread + c, part.word)] =
            Encode4<kFormat>(values[0][c], values[1][c], values[2][c], values[3][c]);
      }
    }
  }
  if (tiles.out_columns == nullptr) {
    return;
  }
  __syncthreads();
  const int first_column = part.column - part.group * kColumnsOfThread;
  const int first_row = part.row - part.word * kRowsOfThread + part.group * 16;
  if (first_row < tiles.rows) {
#pragma unroll
    for (int step = 0; step < kTile / kWordsOfColumn; ++step) {
      const int local = step * kWordsOfColumn + part.word;
      const int target = first_column + local;
      if (target < tiles.columns) {
        const unsigned* at = words + PlaceOf(local, part.group * 4);
        *reinterpret_cast<uint4*>(tiles.out_columns + static_cast<std::int64_t>(target) * tiles.rows + first_row) =
            make_uint4(at[0], at[1], at[2], at[3]);
      }
    }
  }
}

// A scale that a copy may be tried with: a guess may be anything.
__device__ float UsableScale(float guess) { return guess >= 0x1p-100F && guess <= 0x1p100F ? guess : 1.0F; }

// A tile a block. Extents are multiples of 16, addresses of 16 bytes. kGuesses: with the guessed scale, noting the
// largest magnitude on the way; CorrectKernel follows.
template <typename T, __nv_fp8_interpretation_t kFormat, bool kSums, bool kGuesses>
__global__ void __launch_bounds__(kThreads) QuantizeKernel(const T* from, QuantizeTiles tiles) {
  __shared__ unsigned words[kSharedWords];
  const TilePart part = OwnPart(tiles, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
  float values[kRowsOfThread][kColumnsOfThread] = {};
  LoadPart(values, from, tiles, part);
  float scale = 0;
  if constexpr (kGuesses) {
    scale = UsableScale(*tiles.guess);
  } else {
    // After the loads have started: a block waits for both at once.
    scale = ScaleOf<kFormat>(NotedLargest(tiles.largest));
  }
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
    *(kGuesses ? tiles.used : tiles.scale) = scale;
  }
  if constexpr (kSums) {
    StoreColumnSums(values, tiles);
  }
  if constexpr (kGuesses) {
    unsigned bits = 0;
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      bits = max(bits, LargestOf<T>(values[r]));
    }
    bits = __reduce_max_sync(0xffffffffU, bits);
    if (threadIdx.x % kWarp == 0) {
      atomicMax(tiles.largest + (blockIdx.y * gridDim.x + blockIdx.x) % kLargestSlots, bits);
    }
  }
  StoreTile<kFormat>(values, tiles, part, scale, words);
}

// After a copy with a guessed scale: a few blocks that end at once where the guess was right, and otherwise make the
// copy again.
template <typename T, __nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads) CorrectKernel(const T* from, QuantizeTiles tiles) {
  __shared__ unsigned words[kSharedWords];
  const float scale = ScaleOf<kFormat>(NotedLargest(tiles.largest));
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *tiles.scale = scale;
    *tiles.guess = scale;
  }
  if (scale == *tiles.used) {
    return;
  }
  const int tile_columns = (tiles.columns + kTile - 1) / kTile;
  const int count = tile_columns * ((tiles.rows + kTile - 1) / kTile);
  for (int tile = static_cast<int>(blockIdx.x); tile < count; tile += static_cast<int>(gridDim.x)) {
    const TilePart part = OwnPart(tiles, tile % tile_columns, tile / tile_columns);
    float values[kRowsOfThread][kColumnsOfThread] = {};
    LoadPart(values, from, tiles, part);
    StoreTile<kFormat>(values, tiles, part, scale, words);
    __syncthreads();  // before the next tile's words
  }
}

// Any extents and addresses, an element a thread.
template <typename T, __nv_fp8_interpretation_t kFormat>
__global__ void QuantizeElementsKernel(const T* from, QuantizeTiles tiles) {
  const float scale = ScaleOf<kFormat>(NotedLargest(tiles.largest));
  const std::int64_t count = static_cast<std::int64_t>(tiles.rows) * tiles.columns;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index == 0) {
    *tiles.scale = scale;
  }
  if (index >= count) {
    return;
  }
  const unsigned char code = __nv_cvt_float_to_fp8(ToFloat(from[index]) / scale, __NV_SATFINITE, kFormat);
  if (tiles.out_rows != nullptr) {
    tiles.out_rows[index] = code;
  }
  if (tiles.out_columns != nullptr) {
    tiles.out_columns[index % tiles.columns * tiles.rows + index / tiles.columns] = code;
  }
}

bool IsTiled(const QuantizeArgs& args) {
  return args.from.shape[0] % kFloat8Unit == 0 && args.from.shape[1] % kFloat8Unit == 0 &&
         Aligned16({args.from.data, args.rows.data, args.columns.data});
}

template <typename T, __nv_fp8_interpretation_t kFormat>
void StartQuantize(const CudaContext& context, const Tensor& from, const QuantizeTiles& tiles, bool tiled) {
  if (tiled) {
    const dim3 blocks(static_cast<unsigned>(CeilDiv(tiles.columns, kTile)),
                      static_cast<unsigned>(CeilDiv(tiles.rows, kTile)));
    const bool sums = tiles.partial != nullptr;
    const auto kernel =
        tiles.guess == nullptr
            ? (sums ? QuantizeKernel<T, kFormat, true, false> : QuantizeKernel<T, kFormat, false, false>)
            : (sums ? QuantizeKernel<T, kFormat, true, true> : QuantizeKernel<T, kFormat, false, true>);
    Launch(context, {blocks, dim3(kThreads)}, kernel, from.as<T>(), tiles);
    if (tiles.guess != nullptr) {
      const unsigned most = static_cast<unsigned>(context.multiprocessors()) * 2;
      Launch(context, {dim3(std::min(blocks.x * blocks.y, most)), dim3(kThreads)}, CorrectKernel<T, kFormat>,
             from.as<T>(), tiles);
    }
  } else {
    const dim3 blocks(static_cast<unsigned>(CeilDiv(from.count(), kThreads)));
    Launch(context, {blocks, dim3(kThreads)}, QuantizeElementsKernel<T, kFormat>, from.as<T>(), tiles);
  }
}

}  // namespace

void CudaOps::DoQuantize(const QuantizeArgs& args) {
  if (args.from.count() == 0) {
    return;
  }
  const bool tiled = IsTiled(args);
  const std::int64_t columns = args.from.shape[1];
  const std::int64_t tile_rows = CeilDiv(args.from.shape[0], kTile);
  const std::int64_t partials = tiled && args.column_sums.given() ? tile_rows * columns : 0;
  constexpr std::int64_t kSlotBytes = kLargestSlots * static_cast<std::int64_t>(sizeof(unsigned));
  constexpr std::int64_t kUsedBytes = 16;
  auto* const scratch = static_cast<char*>(context_.Scratch(kSlotBytes + kUsedBytes + partials * 4));
  const bool noted = args.largest.given();
  const bool guesses = tiled && !noted && args.guess.given();
  unsigned* const largest = noted ? args.largest.as<unsigned>() : reinterpret_cast<unsigned*>(scratch);
  if (!noted) {
    ClearMemory(context_, largest, kSlotBytes);
  }
  const QuantizeTiles tiles{
      .rows = static_cast<int>(args.from.shape[0]),
      .columns = static_cast<int>(columns),
      .largest = largest,
      .out_rows = args.rows.as<unsigned char>(),
      .out_columns = args.columns.as<unsigned char>(),
      .scale = args.scale.as<float>(),
      .partial = partials > 0 ? reinterpret_cast<float*>(scratch + kSlotBytes + kUsedBytes) : nullptr,
      .guess = guesses ? args.guess.as<float>() : nullptr,
      .used = reinterpret_cast<float*>(scratch + kSlotBytes)};
  const DType format = args.rows.given() ? args.rows.dtype : args.columns.dtype;
  DispatchFloat(args.from.dtype, "Quantize", [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (!noted && !guesses) {
      const std::int64_t most_blocks = static_cast<std::int64_t>(context_.multiprocessors()) * 8;
      const std::int64_t blocks = std::min(CeilDiv(args.from.count(), kThreads * 8), most_blocks);
      Launch(context_, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)}, LargestMagnitudeKernel<T>,
             args.from.as<T>(), args.from.count(), Aligned16({args.from.data}), largest);
    }
    if (format == DType::kFloat8E4M3) {
      StartQuantize<T, __NV_E4M3>(context_, args.from, tiles, tiled);
    } else {
      StartQuantize<T, __NV_E5M2>(context_, args.from, tiles, tiled);
    }
  });
  if (tiles.partial != nullptr) {
    AddColumnSums(context_, {tiles.partial, tile_rows, columns, columns, args.column_sums.as<float>(), nullptr});
  } else if (args.column_sums.given()) {
    DoBiasGradient(args.from, args.column_sums);
  }
}

}  // namespace trireme
