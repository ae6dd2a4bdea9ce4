// bf16 products with ARM's matrix instructions: tiles of 8 x 12 sums as 4 x 6 squares of 2 x 2, 4 deep. A panel is
// [depth / 4][lines][4].
#include "device/cpu/product/bf16_neon.h"

#include <arm_neon.h>

namespace trireme {
namespace {

constexpr int kRows = 8;
constexpr int kColumns = 12;
constexpr int kUnit = 4;

// A word of 4 depths of one line; zero beyond the source.
void PackWord(const PackArgs& args, std::int64_t line, std::int64_t depth, std::uint16_t* to) {
  const auto* source = static_cast<const std::uint16_t*>(args.source);
  for (int i = 0; i < kUnit; ++i) {
    const std::int64_t at = depth + i;
    const std::int64_t offset = args.depth_contiguous ? line * args.stride + at : at * args.stride + line;
    to[i] = line < args.lines && at < args.depth ? source[offset] : 0;
  }
}

// Two words of each of two lines at a time, where there are as many.
void PackFromDepths(const PackArgs& args, int lines_of_panel) {
  const auto* source = static_cast<const std::uint16_t*>(args.source);
  auto* to = static_cast<std::uint16_t*>(args.panel);
  const int next_word = lines_of_panel * kUnit;
  const std::int64_t whole = args.depth - args.depth % (2 * kUnit);
  for (std::int64_t depth = 0; depth < whole; depth += 2 * kUnit, to += 2 * next_word) {
    for (int line = 0; line < lines_of_panel; line += 2) {
      std::uint16_t* const words = to + line * kUnit;
      if (line + 2 <= args.lines) {
        const std::uint16_t* from = source + line * args.stride + depth;
        const uint64x2_t first = vreinterpretq_u64_u16(vld1q_u16(from));
        const uint64x2_t second = vreinterpretq_u64_u16(vld1q_u16(from + args.stride));
        vst1q_u16(words, vreinterpretq_u16_u64(vzip1q_u64(first, second)));
        vst1q_u16(words + next_word, vreinterpretq_u16_u64(vzip2q_u64(first, second)));
        continue;
      }
      for (int i = 0; i < 2; ++i) {
        PackWord(args, line + i, depth, words + i * kUnit);
        PackWord(args, line + i, depth + kUnit, words + next_word + i * kUnit);
      }
    }
  }
  for (std::int64_t depth = whole; depth < args.depth; depth += kUnit) {
    for (int line = 0; line < lines_of_panel; ++line, to += kUnit) {
      PackWord(args, line, depth, to);
    }
  }
}

// Four elements and zeros.
inline __attribute__((always_inline)) uint16x8_t LoadFour(const std::uint16_t* from) {
  return vcombine_u16(vld1_u16(from), vdup_n_u16(0));
}

// A word of each of four lines at a time, where there are as many.
void PackFromLines(const PackArgs& args, int lines_of_panel) {
  const auto* source = static_cast<const std::uint16_t*>(args.source);
  auto* to = static_cast<std::uint16_t*>(args.panel);
  for (std::int64_t depth = 0; depth < args.depth; depth += kUnit) {
    for (int line = 0; line < lines_of_panel; line += 4, to += 4 * kUnit) {
      if (line + 4 <= args.lines && depth + kUnit <= args.depth) {
        const std::uint16_t* from = source + depth * args.stride + line;
        const uint32x4_t first_depths = vreinterpretq_u32_u16(vzip1q_u16(LoadFour(from), LoadFour(from + args.stride)));
        const uint32x4_t last_depths =
            vreinterpretq_u32_u16(vzip1q_u16(LoadFour(from + 2 * args.stride), LoadFour(from + 3 * args.stride)));
        vst1q_u16(to, vreinterpretq_u16_u32(vzip1q_u32(first_depths, last_depths)));
        vst1q_u16(to + 2 * kUnit, vreinterpretq_u16_u32(vzip2q_u32(first_depths, last_depths)));
        continue;
      }
      for (int i = 0; i < 4; ++i) {
        PackWord(args, line + i, depth, to + i * kUnit);
      }
    }
  }
}

void Pack(const PackArgs& args, int lines_of_panel) {
  args.depth_contiguous ? PackFromDepths(args, lines_of_panel) : PackFromLines(args, lines_of_panel);
}

void PackLeft(const PackArgs& args) { Pack(args, kRows); }
void PackRight(const PackArgs& args) { Pack(args, kColumns); }

inline __attribute__((always_inline)) bfloat16x8_t LoadWords(const std::uint16_t* from) {
  return vreinterpretq_bf16_u16(vld1q_u16(from));
}

// Sums of two rows, of the columns of two squares.
inline __attribute__((always_inline)) void FinishRows(const TileArgs& args, float32x4_t left, float32x4_t right,
                                                      float* to) {
  const float64x2_t left_rows = vreinterpretq_f64_f32(left);
  const float64x2_t right_rows = vreinterpretq_f64_f32(right);
  float32x4_t upper = vreinterpretq_f32_f64(vzip1q_f64(left_rows, right_rows));
  float32x4_t lower = vreinterpretq_f32_f64(vzip2q_f64(left_rows, right_rows));
  if (args.accumulate) {
    upper = vaddq_f32(upper, vld1q_f32(to));
    lower = vaddq_f32(lower, vld1q_f32(to + args.sums_stride));
  }
  vst1q_f32(to, upper);
  vst1q_f32(to + args.sums_stride, lower);
}

// Squares of a tile.
constexpr int kHigh = kRows / 2;
constexpr int kWide = kColumns / 2;
using Squares = float32x4_t[kHigh][kWide];

// Adds the products of `left` with squares [kBegin, kEnd) of the columns.
template <int kBegin, int kEnd>
inline __attribute__((always_inline)) void AddSquares(const bfloat16x8_t (&left)[kHigh], const std::uint16_t* b,
                                                      Squares& sums) {
  bfloat16x8_t right[kEnd - kBegin];
#pragma GCC unroll 4
  for (int j = kBegin; j < kEnd; ++j) {
    right[j - kBegin] = LoadWords(b + j * 2 * kUnit);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kHigh; ++i) {
#pragma GCC unroll 4
    for (int j = kBegin; j < kEnd; ++j) {
      sums[i][j] = vbfmmlaq_f32(sums[i][j], left[i], right[j - kBegin]);
    }
  }
}

void Multiply(const TileArgs& tile) {
  const TileArgs args = tile;  // a copy, which no store can change
  const auto* a = static_cast<const std::uint16_t*>(args.a);
  const auto* b = static_cast<const std::uint16_t*>(args.b);
  Squares sums;
#pragma GCC unroll 4
  for (int i = 0; i < kHigh; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < kWide; ++j) {
      sums[i][j] = vdupq_n_f32(0);
    }
  }
  for (std::int64_t depth = 0; depth < args.depth; depth += kUnit, a += kRows * kUnit, b += kColumns * kUnit) {
    bfloat16x8_t left[kHigh];
#pragma GCC unroll 4
    for (int i = 0; i < kHigh; ++i) {
      left[i] = LoadWords(a + i * 2 * kUnit);
    }
    AddSquares<0, 4>(left, b, sums);
    // The compiler moves no load across this line: with 24 sums, all operands at once do not fit 32 registers.
    asm volatile("" ::: "memory");
    AddSquares<4, kWide>(left, b, sums);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kHigh; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kWide; j += 2) {
      FinishRows(args, sums[i][j], sums[i][j + 1], args.sums + 2 * i * args.sums_stride + 2 * j);
    }
  }
}

}  // namespace

ProductKernel NeonBf16Kernel() {
  return {.name = "bf16 neon",
          .packed = OperandType::kBFloat16,
          .rows = kRows,
          .columns = kColumns,
          .unit = kUnit,
          .longest_depth = 512,
          .pack_left = PackLeft,
          .pack_right = PackRight,
          .multiply = Multiply,
          .store = nullptr,
          .enter = nullptr,
          .leave = nullptr};
}

}  // namespace trireme
