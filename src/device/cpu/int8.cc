#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/int8.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/int8_block.h"
#include "device/cpu/cpu_ops-inl.h"
#include "device/cpu/dispatch.h"
#include "device/cpu/narrow.h"
#include "device/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kBlockGrain = 256;  // blocks that are worth a thread

template <typename T>
void PackBlock(std::int32_t* packed, const T* from) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < kInt8Block; ++i) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(static_cast<float>(from[i])) & 0x7fffffffU);
  }
  const Int8Scale scale = ScaleOfBlock(largest, std::bit_cast<float>(largest));
  std::int8_t numbers[kInt8Block] = {};
  for (std::int64_t i = 0; scale.inverse != 0 && i < kInt8Block; ++i) {
    numbers[i] = static_cast<std::int8_t>(ToInt8(static_cast<float>(from[i]), scale.inverse));
  }
  packed[0] = std::bit_cast<std::int32_t>(scale.scale);
  std::memcpy(packed + 1, numbers, sizeof(numbers));
}

template <typename T>
void UnpackBlock(T* to, const std::int32_t* packed, std::int64_t part_words, const Int8Sum& sum) {
  float result[kInt8Block] = {};
  if (sum.add) {
    for (std::int64_t i = 0; i < kInt8Block; ++i) {
      result[i] = static_cast<float>(to[i]);
    }
  }
  float total[kInt8Block] = {};
  for (int part = 0; part < sum.parts; ++part) {
    const std::int32_t* block = packed + part * part_words;
    const auto scale = std::bit_cast<float>(block[0]);
    std::int8_t numbers[kInt8Block];
    std::memcpy(numbers, block + 1, sizeof(numbers));
    for (std::int64_t i = 0; i < kInt8Block; ++i) {
      total[i] += static_cast<float>(numbers[i]) * scale;
    }
  }
  for (std::int64_t i = 0; i < kInt8Block; ++i) {
    to[i] = Narrow<T>(result[i] + total[i]);
  }
}

}  // namespace

void CpuOps::DoPackInt8(const Tensor& packed, const Tensor& from) {
  DispatchWorkingType(from.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, from.count() / kInt8Block, kBlockGrain, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        PackBlock(packed.as<std::int32_t>() + block * kInt8Words, from.as<T>() + block * kInt8Block);
      }
    });
  });
}

void CpuOps::DoUnpackInt8(const Tensor& to, const Tensor& packed, const Int8Sum& sum) {
  const std::int64_t part_words = PackedWords(to.count());
  DispatchWorkingType(to.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelRanges(threads_, to.count() / kInt8Block, kBlockGrain, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        UnpackBlock(to.as<T>() + block * kInt8Block, packed.as<std::int32_t>() + block * kInt8Words, part_words, sum);
      }
    });
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
