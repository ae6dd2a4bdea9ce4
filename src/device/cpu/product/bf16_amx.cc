// bf16 products with AMX: tiles of 32 x 32 sums as 2 x 2 tile registers, 32 deep.
#include "device/cpu/product/bf16_amx.h"

#include <immintrin.h>

#include "device/cpu/product/bf16_pack_avx512.h"

namespace trireme {
namespace {

constexpr int kTile = 32;

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr TileConfiguration kConfiguration;

void Enter() { _tile_loadconfig(&kConfiguration); }

void Leave() { _tile_release(); }

void PackLeft(const PackArgs& args) { PackWordsByLine(args, kTile); }
void PackRight(const PackArgs& args) { PackWordsByDepth(args, kTile, 32); }

void Multiply(const TileArgs& args) {
  constexpr int kRightStride = kTile * 4;
  const auto* a = static_cast<const std::uint16_t*>(args.a);
  const auto* b = static_cast<const std::uint16_t*>(args.b);
  const std::int64_t stride = 4 * args.sums_stride;
  float* lower = args.sums + 16 * args.sums_stride;
  if (args.accumulate) {
    _tile_loadd(0, args.sums, stride);
    _tile_loadd(1, args.sums + 16, stride);
    _tile_loadd(2, lower, stride);
    _tile_loadd(3, lower + 16, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  // The engine multiplies one panel a by many b: streaming loads of b leave a in the first-level cache.
  const std::uint16_t* end = a + args.depth * kTile;
  const char* ahead = args.ahead;
  const std::int64_t ahead_bytes = args.ahead_lines / (args.depth / 32) * 64;  // a step of the loop
  for (; a < end; a += kTile * 32, b += kTile * 32) {
    for (const char* stop = ahead + ahead_bytes; ahead < stop; ahead += 64) {
      _mm_prefetch(ahead, _MM_HINT_T1);
    }
    _tile_stream_loadd(6, b, kRightStride);
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stream_loadd(7, b + 32, kRightStride);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + 16 * 32, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, args.sums, stride);
  _tile_stored(1, args.sums + 16, stride);
  _tile_stored(2, lower, stride);
  _tile_stored(3, lower + 16, stride);
}

}  // namespace

ProductKernel AmxBf16Kernel() {
  return {.name = "bf16 amx",
          .packed = OperandType::kBFloat16,
          .rows = kTile,
          .columns = kTile,
          .unit = 32,
          .longest_depth = 512,
          .pack_left = PackLeft,
          .pack_right = PackRight,
          .multiply = Multiply,
          .store = nullptr,
          .enter = Enter,
          .leave = Leave};
}

}  // namespace trireme
