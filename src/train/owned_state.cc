#include "train/owned_state.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace trireme {
namespace {

// Values of which a copy lies beside the place that they are converted in.
constexpr std::int64_t kBlock = 2048;

}  // namespace

void CopyValues(Device& device, const Tensor& from, float* to) {
  assert(from.dtype == DType::kFloat32 || from.dtype == DType::kBFloat16);
  const std::int64_t count = from.count();
  if (from.dtype == DType::kFloat32) {
    return device.CopyToHost(to, from.data, from.bytes());
  }
  // The narrow ones fill the end of the room that the wide ones will take from its beginning.
  auto* const narrow = reinterpret_cast<char*>(to) + count * SizeOf(DType::kBFloat16);
  device.CopyToHost(narrow, from.data, from.bytes());
  std::array<BFloat16, kBlock> block;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t length = std::min(kBlock, count - first);
    std::memcpy(block.data(), narrow + first * SizeOf(DType::kBFloat16),
                static_cast<std::size_t>(length) * sizeof(BFloat16));
    std::transform(block.begin(), block.begin() + length, to + first,
                   [](BFloat16 value) { return static_cast<float>(value); });
  }
}

void CopyValues(Device& device, std::span<float> from, const Tensor& to) {
  assert(to.dtype == DType::kFloat32 || to.dtype == DType::kBFloat16);
  assert(to.count() == static_cast<std::int64_t>(from.size()));
  if (to.dtype == DType::kBFloat16) {
    auto* const narrow = reinterpret_cast<char*>(from.data());
    std::array<BFloat16, kBlock> block;
    for (std::int64_t first = 0; first < to.count(); first += kBlock) {
      const std::int64_t length = std::min(kBlock, to.count() - first);
      std::transform(from.begin() + first, from.begin() + first + length, block.begin(),
                     [](float value) { return BFloat16(value); });
      std::memcpy(narrow + first * SizeOf(DType::kBFloat16), block.data(),
                  static_cast<std::size_t>(length) * sizeof(BFloat16));
    }
  }
  device.CopyFromHost(to.data, from.data(), to.bytes());
}

}  // namespace trireme
