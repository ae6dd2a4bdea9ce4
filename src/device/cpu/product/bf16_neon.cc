// bf16 products with ARM's matrix instructions: tiles of 8 x 12 sums as 4 x 6 squares of 2 x 2, 4 deep. A panel is
// [depth / 4][lines][4].
#include "device/cpu/product/bf16_neon.h"

#include <arm_neon.h>

namespace trireme {
namespace {

constexpr int kRows = 8;
constexpr int kColumns = 12;
constexpr int kUnit = 4;

// A word of 4 depths of one line.
void PackFromDepths(const PackArgs& args, int lines_of_panel) {
  const auto* source = static_cast<const std::uint16_t*>(args.source);
  auto* to = static_cast<std::uint16_t*>(args.panel);
  for (std::int64_t depth = 0; depth < args.depth; depth += kUnit) {
    for (int line = 0; line < lines_of_panel; ++line, to += kUnit) {
      const std::uint16_t* from = source + line * args.stride + depth;
      if (line < args.lines && depth + kUnit <= args.depth) {
        vst1_u16(to, vld1_u16(from));
        continue;
      }
      for (int i = 0; i < kUnit; ++i) {
        to[i] = line < args.lines && depth + i < args.depth ? from[i] : 0;
      }
    }
  }
}

void PackFromLines(const PackArgs& args, int lines_of_panel) {
  const auto* source = static_cast<const std::uint16_t*>(args.source);
  auto* to = static_cast<std::uint16_t*>(args.panel);
  for (std::int64_t depth = 0; depth < args.depth; depth += kUnit) {
    const std::uint16_t* from = source + depth * args.stride;
    for (int line = 0; line < lines_of_panel; line += 4, to += 4 * kUnit) {
      if (line + 4 <= args.lines && depth + kUnit <= args.depth) {
        const uint16x4x4_t rows = {{vld1_u16(from + line), vld1_u16(from + args.stride + line),
                                    vld1_u16(from + 2 * args.stride + line), vld1_u16(from + 3 * args.stride + line)}};
        vst4_u16(to, rows);
        continue;
      }
      for (int i = 0; i < 4 * kUnit; ++i) {
        const std::int64_t at = line + i / kUnit;
        to[i] = at < args.lines && depth + i % kUnit < args.depth ? from[i % kUnit * args.stride + at] : 0;
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

void Multiply(const TileArgs& args) {
  constexpr int kHigh = kRows / 2;
  constexpr int kWide = kColumns / 2;
  const auto* a = static_cast<const std::uint16_t*>(args.a);
  const auto* b = static_cast<const std::uint16_t*>(args.b);
  float32x4_t sums[kHigh][kWide];
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
#pragma GCC unroll 6
    for (int j = 0; j < kWide; ++j) {
      const bfloat16x8_t right = LoadWords(b + j * 2 * kUnit);
#pragma GCC unroll 4
      for (int i = 0; i < kHigh; ++i) {
        sums[i][j] = vbfmmlaq_f32(sums[i][j], left[i], right);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kHigh; ++i) {
#pragma GCC unroll 6
    for (int j = 0; j < kWide; ++j) {
      float* to = args.sums + 2 * i * args.sums_stride + 2 * j;
      const float32x2_t upper = vget_low_f32(sums[i][j]);
      const float32x2_t lower = vget_high_f32(sums[i][j]);
      vst1_f32(to, args.accumulate ? vadd_f32(upper, vld1_f32(to)) : upper);
      to += args.sums_stride;
      vst1_f32(to, args.accumulate ? vadd_f32(lower, vld1_f32(to)) : lower);
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
