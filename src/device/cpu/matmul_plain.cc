#include <algorithm>

#include "device/cpu/dispatch.h"
#include "device/cpu/matmul.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tile_product.h"
#include "device/cpu/vector_math.h"

namespace trireme {
namespace {

constexpr std::int64_t kRowBlock = 16 * kTileRows;
constexpr std::int64_t kColumnBlock = 128;
constexpr std::int64_t kDepthBlock = 256;
static_assert(kColumnBlock % kPanel == 0);

// A rectangle of c and its sums, [rows, kColumnBlock].
struct Block {
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t first_column;
  std::int64_t columns;
  const float* sums;
};

template <typename In, typename Out>
void StoreRow(const MatmulArgs& args, const Block& block, std::int64_t row) {
  const float* sums = block.sums + row * kColumnBlock;
  const std::int64_t offset = (block.first_row + row) * args.c.shape[1] + block.first_column;
  Out* c = args.c.as<Out>() + offset;
  Out* auxiliary = args.auxiliary.as<Out>() + (args.auxiliary.given() ? offset : 0);
  float z[kColumnBlock];
  std::copy(sums, sums + block.columns, z);
  if (args.bias.given()) {
    const In* bias = args.bias.as<In>() + block.first_column;
#pragma omp simd
    for (std::int64_t i = 0; i < block.columns; ++i) {
      z[i] += static_cast<float>(bias[i]);
    }
  }
  if (args.accumulate) {
#pragma omp simd
    for (std::int64_t i = 0; i < block.columns; ++i) {
      z[i] += static_cast<float>(c[i]);
    }
  }
  if (args.epilogue == Epilogue::kGelu) {
#pragma omp simd
    for (std::int64_t i = 0; i < block.columns; ++i) {
      auxiliary[i] = Narrow<Out>(z[i]);
      z[i] = Gelu(z[i]);
    }
  } else if (args.epilogue == Epilogue::kGeluGradient) {
#pragma omp simd
    for (std::int64_t i = 0; i < block.columns; ++i) {
      z[i] *= GeluGradient(static_cast<float>(auxiliary[i]));
    }
  }
#pragma omp simd
  for (std::int64_t i = 0; i < block.columns; ++i) {
    c[i] = Narrow<Out>(z[i]);
  }
}

// Rows [begin, begin + rows) of op(a), depth [first, first + depth), in fp32 and in the order of a's memory.
struct LeftBlock {
  std::int64_t begin;
  std::int64_t rows;
  std::int64_t first;
  std::int64_t depth;
};

template <typename In>
void PackLeft(const MatmulArgs& args, const LeftBlock& block, float* packed) {
  const std::int64_t stride = args.a.shape[1];
  const In* a = args.a.as<In>();
  const In* source = args.transpose_a ? a + block.first * stride + block.begin : a + block.begin * stride + block.first;
  const std::int64_t lines = args.transpose_a ? block.depth : block.rows;
  const std::int64_t length = args.transpose_a ? block.rows : block.depth;
  for (std::int64_t line = 0; line < lines; ++line) {
#pragma omp simd
    for (std::int64_t i = 0; i < length; ++i) {
      packed[line * length + i] = static_cast<float>(source[line * stride + i]);
    }
  }
}

// Columns [first, first + columns) of op(b), whole depth, in panels.
template <typename In>
void PackRight(const MatmulArgs& args, std::int64_t first, std::int64_t columns, std::int64_t depth, float* packed) {
  const In* b = args.b.as<In>();
  const std::int64_t stride = args.b.shape[1];
  if (args.transpose_b) {
    PackTransposed(b + first * stride, stride, columns, depth, packed);
  } else {
    PackColumns(b + first, stride, depth, columns, depth, packed);
  }
}

template <typename In, typename Out>
void ProductOfRows(const MatmulArgs& args, std::int64_t begin, std::int64_t end, float* scratch) {
  const ProductSizes sizes(args);
  float* sums = scratch;
  float* left = sums + kRowBlock * kColumnBlock;
  float* right = left + kRowBlock * kDepthBlock;
  for (std::int64_t column = 0; column < sizes.n; column += kColumnBlock) {
    const std::int64_t columns = std::min(kColumnBlock, sizes.n - column);
    PackRight<In>(args, column, columns, sizes.k, right);
    for (std::int64_t row = begin; row < end; row += kRowBlock) {
      const std::int64_t rows = std::min(kRowBlock, end - row);
      for (std::int64_t k = 0; k < sizes.k; k += kDepthBlock) {
        const std::int64_t depth = std::min(kDepthBlock, sizes.k - k);
        PackLeft<In>(args, {row, rows, k, depth}, left);
        TileProduct({.a = left,
                     .a_row_stride = args.transpose_a ? 1 : depth,
                     .a_depth_stride = args.transpose_a ? rows : 1,
                     .b = right + k * kPanel,
                     .b_panel_stride = sizes.k * kPanel,
                     .c = sums,
                     .c_stride = kColumnBlock,
                     .rows = rows,
                     .depth = depth,
                     .panels = CeilDiv(columns, kPanel),
                     .accumulate = k > 0});
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        StoreRow<In, Out>(args, {row, rows, column, columns, sums}, i);
      }
    }
  }
}

}  // namespace

void PlainMatmul(const MatmulArgs& args, int threads, Scratch& scratch) {
  const ProductSizes sizes(args);
  const int parts = PartCount(threads, sizes.m, kRowBlock);
  scratch.Reserve(parts, kRowBlock * (kColumnBlock + kDepthBlock) + sizes.k * kColumnBlock);
  DispatchWorkingTypes(args.a.dtype, args.c.dtype, [&](auto in, auto out) {
    ParallelRanges(threads, sizes.m, kRowBlock, [&](int part, std::int64_t begin, std::int64_t end) {
      ProductOfRows<decltype(in), decltype(out)>(args, begin, end, scratch.of(part));
    });
  });
}

}  // namespace trireme
