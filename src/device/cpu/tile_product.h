// The inner loop of plain products and of attention: fp32 tiles held in registers, on operands that lie in cache.
// The right operand is packed in panels of kPanel columns, [panel][depth][kPanel], padded with zeros.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace trireme {

// The widest vector of the target.
using FloatVector = float __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));
using FloatVectorInMemory = float __attribute__((vector_size(__BIGGEST_ALIGNMENT__), aligned(4), may_alias));

inline constexpr int kVectorFloats = __BIGGEST_ALIGNMENT__ / 4;
// 6 x 2 vectors keep twelve sums in flight and leave room for operands even with 16 registers.
inline constexpr int kTileRows = 6;
inline constexpr int kPanel = 2 * kVectorFloats;

// c [rows, panels * kPanel] = (or, with accumulate, +=) a [rows, depth] * b.
struct TileProductArgs {
  const float* a = nullptr;
  std::int64_t a_row_stride = 0;
  std::int64_t a_depth_stride = 1;
  const float* b = nullptr;
  std::int64_t b_panel_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t panels = 0;
  bool accumulate = false;
};

template <int kRows>
inline void TileOfRows(const TileProductArgs& args, const float* a, const float* b, float* c) {
  FloatVector left[kRows];
  FloatVector right[kRows];
  for (int i = 0; i < kRows; ++i) {
    left[i] = FloatVector{};
    right[i] = FloatVector{};
  }
  for (std::int64_t k = 0; k < args.depth; ++k) {
    const FloatVector b_left = *reinterpret_cast<const FloatVectorInMemory*>(b + k * kPanel);
    const FloatVector b_right = *reinterpret_cast<const FloatVectorInMemory*>(b + k * kPanel + kVectorFloats);
    const float* column = a + k * args.a_depth_stride;
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const float factor = column[i * args.a_row_stride];
      left[i] += factor * b_left;
      right[i] += factor * b_right;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    auto* target = reinterpret_cast<FloatVectorInMemory*>(c + i * args.c_stride);
    auto* next = reinterpret_cast<FloatVectorInMemory*>(c + i * args.c_stride + kVectorFloats);
    *target = args.accumulate ? *target + left[i] : left[i];
    *next = args.accumulate ? *next + right[i] : right[i];
  }
}

inline void TileProduct(const TileProductArgs& args) {
  for (std::int64_t panel = 0; panel < args.panels; ++panel) {
    const float* b = args.b + panel * args.b_panel_stride;
    for (std::int64_t row = 0; row < args.rows; row += kTileRows) {
      const float* a = args.a + row * args.a_row_stride;
      float* c = args.c + row * args.c_stride + panel * kPanel;
      switch (args.rows - row) {
        case 1:
          TileOfRows<1>(args, a, b, c);
          break;
        case 2:
          TileOfRows<2>(args, a, b, c);
          break;
        case 3:
          TileOfRows<3>(args, a, b, c);
          break;
        case 4:
          TileOfRows<4>(args, a, b, c);
          break;
        case 5:
          TileOfRows<5>(args, a, b, c);
          break;
        default:
          TileOfRows<kTileRows>(args, a, b, c);
      }
    }
  }
}

// rows x columns elements of `source`, `stride` apart from row to row, into panels of columns: depth = rows.
// Panels are `depth` rows apart in `panels` (depth >= rows); padding columns become 0.
template <typename T>
void PackColumns(const T* source, std::int64_t stride, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                 float* panels) {
  for (std::int64_t first = 0; first < columns; first += kPanel) {
    const std::int64_t width = columns - first < kPanel ? columns - first : kPanel;
    float* panel = panels + first * depth;
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* from = source + row * stride + first;
      float* to = panel + row * kPanel;
      if (width == kPanel) {
#pragma omp simd
        for (int i = 0; i < kPanel; ++i) {
          to[i] = static_cast<float>(from[i]);
        }
      } else {
        for (int i = 0; i < kPanel; ++i) {
          to[i] = i < width ? static_cast<float>(from[i]) : 0.0F;
        }
      }
    }
  }
}

// The same of the transpose: rows of `source` become columns of the panels, whose depth is `columns`.
template <typename T>
void PackTransposed(const T* source, std::int64_t stride, std::int64_t rows, std::int64_t columns, float* panels) {
  for (std::int64_t first = 0; first < rows; first += kPanel) {
    const std::int64_t width = rows - first < kPanel ? rows - first : kPanel;
    float* panel = panels + first * columns;
    for (std::int64_t i = 0; i < kPanel; ++i) {
      const T* from = source + (first + i) * stride;
      for (std::int64_t k = 0; k < columns; ++k) {
        panel[k * kPanel + i] = i < width ? static_cast<float>(from[k]) : 0.0F;
      }
    }
  }
}

}  // namespace trireme
