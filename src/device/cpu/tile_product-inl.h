// The inner loop of attention's products: fp32 tiles held in registers, on operands that lie in cache.
// The right operand is packed in panels of kPanel columns, [panel][depth][kPanel], padded with zeros.
// Compiled once per instruction level: Highway's guard instead of #pragma once.
#include <cstdint>

#include "base/shape.h"

#if defined(TRIREME_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_TILE_PRODUCT_INL_H_
#undef TRIREME_TILE_PRODUCT_INL_H_
#else
#define TRIREME_TILE_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

// Vectors of a fixed size: the widest of the level, or 16 bytes where the width is known at run time only.
inline constexpr int kVectorFloats =
    HWY_HAVE_SCALABLE ? 4 : static_cast<int>(hwy::HWY_NAMESPACE::MaxLanes(hwy::HWY_NAMESPACE::ScalableTag<float>()));
using FloatTag = hwy::HWY_NAMESPACE::CappedTag<float, kVectorFloats>;
using FloatVector = hwy::HWY_NAMESPACE::Vec<FloatTag>;

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

HWY_INLINE void StoreTileRow(const TileProductArgs& args, FloatVector left, FloatVector right, float* c) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag tag;
  if (args.accumulate) {
    left = hn::Add(hn::LoadU(tag, c), left);
    right = hn::Add(hn::LoadU(tag, c + kVectorFloats), right);
  }
  hn::StoreU(left, tag, c);
  hn::StoreU(right, tag, c + kVectorFloats);
}

// Sums have names instead of an array, since vectors of unknown size cannot be stored in one. Unused ones vanish.
template <int kRows>
inline void TileOfRows(const TileProductArgs& args, const float* a, const float* b, float* c) {
  namespace hn = hwy::HWY_NAMESPACE;
  const FloatTag tag;
  const FloatVector zero = hn::Zero(tag);
  FloatVector left0 = zero, left1 = zero, left2 = zero, left3 = zero, left4 = zero, left5 = zero;
  FloatVector right0 = zero, right1 = zero, right2 = zero, right3 = zero, right4 = zero, right5 = zero;
  const std::int64_t stride = args.a_row_stride;
  for (std::int64_t k = 0; k < args.depth; ++k) {
    const FloatVector b_left = hn::LoadU(tag, b + k * kPanel);
    const FloatVector b_right = hn::LoadU(tag, b + k * kPanel + kVectorFloats);
    const float* column = a + k * args.a_depth_stride;
    const auto add = [&](int row, FloatVector& left, FloatVector& right) HWY_ATTR {
      const FloatVector factor = hn::Set(tag, column[row * stride]);
      left = hn::MulAdd(factor, b_left, left);
      right = hn::MulAdd(factor, b_right, right);
    };
    add(0, left0, right0);
    if constexpr (kRows > 1) add(1, left1, right1);
    if constexpr (kRows > 2) add(2, left2, right2);
    if constexpr (kRows > 3) add(3, left3, right3);
    if constexpr (kRows > 4) add(4, left4, right4);
    if constexpr (kRows > 5) add(5, left5, right5);
  }
  StoreTileRow(args, left0, right0, c);
  if constexpr (kRows > 1) StoreTileRow(args, left1, right1, c + args.c_stride);
  if constexpr (kRows > 2) StoreTileRow(args, left2, right2, c + 2 * args.c_stride);
  if constexpr (kRows > 3) StoreTileRow(args, left3, right3, c + 3 * args.c_stride);
  if constexpr (kRows > 4) StoreTileRow(args, left4, right4, c + 4 * args.c_stride);
  if constexpr (kRows > 5) StoreTileRow(args, left5, right5, c + 5 * args.c_stride);
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

// Packs the transpose: rows of `source` become columns of the panels, whose depth is `columns`.
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

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
