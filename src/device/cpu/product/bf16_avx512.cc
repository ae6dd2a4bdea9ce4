// bf16 products with AVX-512-BF16: tiles of 14 x 32 sums in 28 registers, 2 deep.
#include "device/cpu/product/bf16_avx512.h"

#include <immintrin.h>

#include "device/cpu/product/bf16_pack_avx512.h"

namespace trireme {
namespace {

constexpr int kRows = 14;
constexpr int kColumns = 32;

void PackLeft(const PackArgs& args) { PackWordsByDepth(args, kRows, 2); }
void PackRight(const PackArgs& args) { PackWordsByDepth(args, kColumns, 2); }

void Multiply(const TileArgs& args) {
  const auto* a = static_cast<const std::uint32_t*>(args.a);
  const auto* b = static_cast<const std::uint32_t*>(args.b);
  __m512 left[kRows];
  __m512 right[kRows];
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
    left[i] = args.accumulate ? _mm512_loadu_ps(args.sums + i * args.sums_stride) : _mm512_setzero_ps();
    right[i] = args.accumulate ? _mm512_loadu_ps(args.sums + i * args.sums_stride + 16) : _mm512_setzero_ps();
  }
  for (std::int64_t word = 0; word < args.depth / 2; ++word, a += kRows, b += kColumns) {
    const auto b_left = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b));
    const auto b_right = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 16));
#pragma GCC unroll 14
    for (int i = 0; i < kRows; ++i) {
      const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[i])));
      left[i] = _mm512_dpbf16_ps(left[i], factor, b_left);
      right[i] = _mm512_dpbf16_ps(right[i], factor, b_right);
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
    _mm512_storeu_ps(args.sums + i * args.sums_stride, left[i]);
    _mm512_storeu_ps(args.sums + i * args.sums_stride + 16, right[i]);
  }
}

}  // namespace

ProductKernel Avx512Bf16Kernel() {
  return {.name = "bf16 avx512",
          .packed = OperandType::kBFloat16,
          .rows = kRows,
          .columns = kColumns,
          .unit = 2,
          .longest_depth = 512,
          .pack_left = PackLeft,
          .pack_right = PackRight,
          .multiply = Multiply,
          .store = nullptr,
          .enter = nullptr,
          .leave = nullptr};
}

}  // namespace trireme
