// The products of attention's blocks, in two forms with one face: FloatProducts on fp32 tiles, and PackedProducts on a
// level's bf16 kernel. Right operands are packed once and read often, in panels of `panel` lines:
// [panel][depth][panel lines], padded with zeros. Left operands are small and row-major.
// Compiled once per instruction level: Highway's guard instead of #pragma once.
#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"
#include "device/cpu/product/kernel.h"

#if defined(TRIREME_ATTENTION_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_ATTENTION_PRODUCTS_INL_H_
#undef TRIREME_ATTENTION_PRODUCTS_INL_H_
#else
#define TRIREME_ATTENTION_PRODUCTS_INL_H_
#endif

#include "device/cpu/tile_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

// A matrix in memory, row-major. Its rows are the lines of an operand and its columns the depth, or, transposed, the
// other way round.
template <typename E>
struct MatrixView {
  const E* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool transposed = false;

  std::int64_t lines() const { return transposed ? columns : rows; }
  std::int64_t depth() const { return transposed ? rows : columns; }
};

// Where a packed right operand is read: lines from a multiple of `panel` on, depths from a multiple of `unit` on.
template <typename E>
struct PanelView {
  const E* panels = nullptr;
  std::int64_t whole_depth = 0;  // padded
  std::int64_t first_line = 0;
  std::int64_t lines = 0;
  std::int64_t first_depth = 0;
};

// c [lines of the left padded to whole tiles, lines of the right padded to whole panels] = (or +=) left * right, in
// fp32.
struct Sums {
  float* c = nullptr;
  std::int64_t stride = 0;
  bool accumulate = false;
};

class FloatProducts {
 public:
  using Element = float;
  static constexpr std::int64_t panel() { return kPanel; }
  static constexpr std::int64_t tile_rows() { return 1; }
  static constexpr std::int64_t unit() { return 1; }
  static constexpr std::int64_t query_block() { return 4 * kTileRows; }
  // Floats of memory for Multiply with a left operand of so many lines and depths.
  static std::int64_t ScratchFloats(std::int64_t /*lines*/, std::int64_t /*depth*/) { return 0; }
  void set_scratch(float* /*memory*/) {}

  template <typename T>
  void PackRight(const MatrixView<T>& from, Element* panels) const {
    if (from.transposed) {
      PackColumns(from.data, from.stride, from.rows, from.columns, from.rows, panels);
    } else {
      PackTransposed(from.data, from.stride, from.rows, from.columns, panels);
    }
  }

  void Multiply(const MatrixView<Element>& left, const PanelView<Element>& right, const Sums& sums) const {
    TileProduct({.a = left.data,
                 .a_row_stride = left.transposed ? 1 : left.stride,
                 .a_depth_stride = left.transposed ? left.stride : 1,
                 .b = right.panels + right.first_line * right.whole_depth + right.first_depth * kPanel,
                 .b_panel_stride = kPanel * right.whole_depth,
                 .c = sums.c,
                 .c_stride = sums.stride,
                 .rows = left.lines(),
                 .depth = left.depth(),
                 .panels = CeilDiv(right.lines, kPanel),
                 .accumulate = sums.accumulate});
  }
};

// One per thread: packs left operands into its scratch. The kernel's packed type is bf16.
class PackedProducts {
 public:
  using Element = BFloat16;
  explicit PackedProducts(const ProductKernel& kernel) : kernel_(kernel) {}

  std::int64_t panel() const { return kernel_.columns; }
  std::int64_t tile_rows() const { return kernel_.rows; }
  std::int64_t unit() const { return kernel_.unit; }
  // Depths of several units feed the kernel well; more would only multiply what the causal mask hides.
  std::int64_t query_block() const { return RoundUp(RoundUp(64, kernel_.rows), kernel_.unit); }
  std::int64_t ScratchFloats(std::int64_t lines, std::int64_t depth) const {
    const std::int64_t elements = RoundUp(lines, kernel_.rows) * RoundUp(depth, kernel_.unit);
    return RoundUp(CeilDiv(elements, 2), kLineFloats);
  }
  void set_scratch(float* memory) { left_ = reinterpret_cast<Element*>(memory); }

  void PackRight(const MatrixView<Element>& from, Element* panels) const {
    const std::int64_t depth = RoundUp(from.depth(), kernel_.unit);
    for (std::int64_t first = 0; first < from.lines(); first += kernel_.columns) {
      kernel_.pack_right(PanelOf(from, first, kernel_.columns, panels + first * depth));
    }
  }

  void Multiply(const MatrixView<Element>& left, const PanelView<Element>& right, const Sums& sums) const {
    const std::int64_t depth = RoundUp(left.depth(), kernel_.unit);
    for (std::int64_t first = 0; first < left.lines(); first += kernel_.rows) {
      kernel_.pack_left(PanelOf(left, first, kernel_.rows, left_ + first * depth));
    }
    for (std::int64_t line = 0; line < right.lines; line += kernel_.columns) {
      const Element* b =
          right.panels + (right.first_line + line) * right.whole_depth + right.first_depth * kernel_.columns;
      for (std::int64_t first = 0; first < left.lines(); first += kernel_.rows) {
        kernel_.multiply({.a = left_ + first * depth,
                          .b = b,
                          .depth = depth,
                          .sums = sums.c + first * sums.stride + line,
                          .sums_stride = sums.stride,
                          .accumulate = sums.accumulate});
      }
    }
  }

 private:
  static constexpr std::int64_t kLineFloats = 16;

  static PackArgs PanelOf(const MatrixView<Element>& from, std::int64_t first, std::int64_t most, Element* panel) {
    const std::int64_t left = from.lines() - first;
    return {.source = from.data + first * (from.transposed ? 1 : from.stride),
            .type = OperandType::kBFloat16,
            .stride = from.stride,
            .depth_contiguous = !from.transposed,
            .lines = left < most ? left : most,
            .depth = from.depth(),
            .panel = panel};
  }

  const ProductKernel& kernel_;
  Element* left_ = nullptr;
};

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
