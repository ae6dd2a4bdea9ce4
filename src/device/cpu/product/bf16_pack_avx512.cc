#include "device/cpu/product/bf16_pack_avx512.h"

#include <immintrin.h>

namespace trireme {
namespace {

constexpr int kLanes = 16;  // words of a register

// 16 registers, named by an array that the compiler keeps in them.
struct Square {
  __m512i row[kLanes];
};

__mmask32 MaskOf(std::int64_t elements) {
  return elements >= 32 ? 0xffffffffU : elements <= 0 ? 0U : (1U << elements) - 1U;
}

inline __attribute__((always_inline)) void Transpose(Square& s) {
  __m512i t[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    t[i] = _mm512_unpacklo_epi32(s.row[i], s.row[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(s.row[i], s.row[i + 1]);
  }
  // Row i now holds, in each quarter q, column 4 * q + i % 4 of the rows 4 * (i / 4) … + 3.
  for (int i = 0; i < kLanes; i += 4) {
    s.row[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    s.row[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    s.row[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    s.row[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_shuffle_i32x4(s.row[i], s.row[i + 4], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(s.row[i + 8], s.row[i + 12], 0x88);
    const __m512i low_odd = _mm512_shuffle_i32x4(s.row[i], s.row[i + 4], 0xdd);
    const __m512i high_odd = _mm512_shuffle_i32x4(s.row[i + 8], s.row[i + 12], 0xdd);
    t[i] = _mm512_shuffle_i32x4(low, high, 0x88);
    t[i + 8] = _mm512_shuffle_i32x4(low, high, 0xdd);
    t[i + 4] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd);
  }
  for (int i = 0; i < kLanes; ++i) {
    s.row[i] = t[i];
  }
}

// Row i: 32 depths, as 16 words, of line first + i. The source's depths are neighbours.
inline __attribute__((always_inline)) void LoadLines(const PackArgs& args, std::int64_t first, std::int64_t depth,
                                                     Square& s) {
  const auto* source = static_cast<const std::uint16_t*>(args.source) + first * args.stride + depth;
  const std::int64_t lines = args.lines - first;
  const __mmask32 mask = MaskOf(args.depth - depth);
  if (lines >= kLanes) {
    for (int i = 0; i < kLanes; ++i) {
      s.row[i] = _mm512_maskz_loadu_epi16(mask, source + i * args.stride);
    }
  } else {
    for (int i = 0; i < kLanes; ++i) {
      s.row[i] = i < lines ? _mm512_maskz_loadu_epi16(mask, source + i * args.stride) : _mm512_setzero_si512();
    }
  }
}

// Depths depth and depth + 1 of the 16 lines from `first` on. The source's lines are neighbours.
inline __attribute__((always_inline)) __m512i LoadWord(const PackArgs& args, std::int64_t first, std::int64_t depth) {
  const auto* source = static_cast<const std::uint16_t*>(args.source) + depth * args.stride + first;
  const auto mask = static_cast<__mmask16>(MaskOf(args.lines - first));
  const __m256i zero = _mm256_setzero_si256();
  const __m256i even = depth < args.depth ? _mm256_maskz_loadu_epi16(mask, source) : zero;
  const __m256i odd = depth + 1 < args.depth ? _mm256_maskz_loadu_epi16(mask, source + args.stride) : zero;
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

void WordsByDepthFromDepths(const PackArgs& args, int lines_of_panel, std::int64_t words) {
  auto* panel = static_cast<std::uint32_t*>(args.panel);
  for (std::int64_t word = 0; word < words; word += kLanes) {
    const std::int64_t left = words - word < kLanes ? words - word : kLanes;
    for (int first = 0; first < lines_of_panel; first += kLanes) {
      Square s;
      LoadLines(args, first, 2 * word, s);
      Transpose(s);
      const int width = lines_of_panel - first < kLanes ? lines_of_panel - first : kLanes;
      std::uint32_t* to = panel + word * lines_of_panel + first;
      if (left == kLanes && width == kLanes) {
        for (int i = 0; i < kLanes; ++i) {
          _mm512_storeu_si512(to + i * lines_of_panel, s.row[i]);
        }
        continue;
      }
      const auto mask = static_cast<__mmask16>(MaskOf(width));
      for (int i = 0; i < kLanes; ++i) {
        if (i < left) {
          _mm512_mask_storeu_epi32(to + i * lines_of_panel, mask, s.row[i]);
        }
      }
    }
  }
}

void WordsByDepthFromLines(const PackArgs& args, int lines_of_panel, std::int64_t words) {
  auto* panel = static_cast<std::uint32_t*>(args.panel);
  for (std::int64_t word = 0; word < words; ++word) {
    for (int first = 0; first < lines_of_panel; first += kLanes) {
      const auto mask = static_cast<__mmask16>(MaskOf(lines_of_panel - first));
      _mm512_mask_storeu_epi32(panel + word * lines_of_panel + first, mask, LoadWord(args, first, 2 * word));
    }
  }
}

}  // namespace

void PackWordsByDepth(const PackArgs& args, int lines_of_panel, int unit) {
  const std::int64_t words = (args.depth + unit - 1) / unit * unit / 2;
  if (args.depth_contiguous) {
    WordsByDepthFromDepths(args, lines_of_panel, words);
  } else {
    WordsByDepthFromLines(args, lines_of_panel, words);
  }
}

void PackWordsByLine(const PackArgs& args, int lines_of_panel) {
  auto* to = static_cast<std::uint32_t*>(args.panel);
  for (std::int64_t depth = 0; depth < args.depth; depth += 2 * kLanes) {
    for (int first = 0; first < lines_of_panel; first += kLanes) {
      Square s;
      if (args.depth_contiguous) {
        LoadLines(args, first, depth, s);
      } else {
        for (int i = 0; i < kLanes; ++i) {
          s.row[i] = LoadWord(args, first, depth + 2 * i);
        }
        Transpose(s);
      }
      for (int i = 0; i < kLanes; ++i) {
        _mm512_storeu_si512(to, s.row[i]);
        to += kLanes;
      }
    }
  }
}

}  // namespace trireme
