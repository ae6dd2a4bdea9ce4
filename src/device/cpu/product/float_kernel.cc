// fp32 products, and bf16 and fp16 ones in fp32 panels, for every target of Highway that the build has.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/product/float_kernel.cc"
#include <hwy/foreach_target.h>
// Highway's order of headers: foreach_target.h first.
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "device/cpu/product/float_tiles-inl.h"
// Uses the vectors of float_tiles-inl.h.
#include "device/cpu/product/float_store-inl.h"
#include "device/cpu/product/kernel_table.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

// Lines that are neighbours in memory: panel [depth][width].
template <typename T>
void PackLines(const PackArgs& args, std::int64_t width) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  const auto* source = static_cast<const T*>(args.source);
  auto* to = static_cast<float*>(args.panel);
  const std::int64_t whole = args.lines == width && width % static_cast<std::int64_t>(lanes) == 0 ? width : 0;
  for (std::int64_t k = 0; k < args.depth; ++k, source += args.stride, to += width) {
    for (std::int64_t i = 0; i < whole; i += static_cast<std::int64_t>(lanes)) {
      hn::StoreU(LoadWide(source + i), FloatTag(), to + i);
    }
    for (std::int64_t i = whole; i < width; ++i) {
      to[i] = i < args.lines ? static_cast<float>(source[i]) : 0.0F;
    }
  }
}

// Four lines whose depths are neighbours, into columns `first` to first + 3 of the panel.
template <typename T>
void PackFourLines(const PackArgs& args, const T* source, float* to, std::int64_t width) {
  const FloatTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN float block[4 * hn::MaxLanes(FloatTag())];
  std::int64_t k = 0;
  for (; k + lanes <= args.depth; k += lanes) {
    const T* from = source + k;
    hn::StoreInterleaved4(LoadWide(from), LoadWide(from + args.stride), LoadWide(from + 2 * args.stride),
                          LoadWide(from + 3 * args.stride), d, block);
    for (std::int64_t i = 0; i < lanes; ++i) {
      std::memcpy(to + (k + i) * width, block + 4 * i, 4 * sizeof(float));
    }
  }
  for (; k < args.depth; ++k) {
    for (std::int64_t line = 0; line < 4; ++line) {
      to[k * width + line] = static_cast<float>(source[line * args.stride + k]);
    }
  }
}

template <typename T>
void PackDepths(const PackArgs& args, std::int64_t width) {
  const auto* source = static_cast<const T*>(args.source);
  auto* panel = static_cast<float*>(args.panel);
  std::int64_t line = 0;
  for (; line + 4 <= args.lines; line += 4) {
    PackFourLines(args, source + line * args.stride, panel + line, width);
  }
  for (; line < width; ++line) {
    for (std::int64_t k = 0; k < args.depth; ++k) {
      panel[k * width + line] = line < args.lines ? static_cast<float>(source[line * args.stride + k]) : 0.0F;
    }
  }
}

template <typename T>
void PackOf(const PackArgs& args, std::int64_t width) {
  args.depth_contiguous ? PackDepths<T>(args, width) : PackLines<T>(args, width);
}

void Pack(const PackArgs& args, std::int64_t width) {
  switch (args.type) {
    case OperandType::kFloat32:
      return PackOf<float>(args, width);
    case OperandType::kBFloat16:
      return PackOf<BFloat16>(args, width);
    case OperandType::kFloat16:
      return PackOf<Float16>(args, width);
  }
}

void PackLeft(const PackArgs& args) { Pack(args, Tile::kRows); }
void PackRight(const PackArgs& args) { Pack(args, Tile::Columns()); }

}  // namespace

ProductKernel KernelOfTarget() {
  return {.name = "fp32",
          .packed = OperandType::kFloat32,
          .rows = Tile::kRows,
          .columns = static_cast<int>(Tile::Columns()),
          .unit = 1,
          // Narrow vectors make narrow panels: those of 512 still lie in 64 KiB, and C is read half as often.
          .longest_depth = hn::Lanes(FloatTag()) <= 4 ? 512 : 256,
          .pack_left = PackLeft,
          .pack_right = PackRight,
          .multiply = Tile::Multiply,
          .store = Store,
          .enter = nullptr,
          .leave = nullptr};
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

ProductKernel FloatKernel(CpuLevel level) {
  using Maker = ProductKernel (*)();
  constexpr LevelTable<Maker> kMakers{HWY_STATIC_DISPATCH(KernelOfTarget), HWY_CHOOSE_AVX2(KernelOfTarget),
                                      HWY_CHOOSE_AVX3(KernelOfTarget), HWY_CHOOSE_NEON(KernelOfTarget),
                                      HWY_CHOOSE_SVE(KernelOfTarget)};
  return kMakers.of(level)();
}

}  // namespace trireme
#endif
