#include "checkpoint/gguf/gguf_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "base/float16.h"

namespace trireme {
namespace {

constexpr std::int64_t kQ8BlockBytes = 2 + kQ8Block;

template <typename Word, typename Convert>
void EncodeEach(std::span<const float> values, std::byte* out, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Word word = convert(values[i]);
    std::memcpy(out + i * sizeof(Word), &word, sizeof(Word));
  }
}

void EncodeQ8Block(std::span<const float> values, std::byte* out) {
  float largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
  }
  const float scale = largest / 127;
  const float inverse = scale > 0 ? 1 / scale : 0;
  const std::uint16_t half = Float16(scale).bits;
  std::memcpy(out, &half, sizeof(half));
  for (std::size_t i = 0; i < values.size(); ++i) {
    out[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(values[i] * inverse)));
  }
}

}  // namespace

GgufType ParseGgufType(const std::string& name) {
  if (name == "f32") {
    return GgufType::kF32;
  }
  if (name == "f16") {
    return GgufType::kF16;
  }
  if (name == "bf16") {
    return GgufType::kBF16;
  }
  Require(name == "q8_0", "'{}' is no type of a GGUF file: f32, f16, bf16 or q8_0", name);
  return GgufType::kQ8;
}

std::uint32_t GgufFileType(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return 0;
    case GgufType::kF16:
      return 1;
    case GgufType::kQ8:
      return 7;
    case GgufType::kBF16:
      return 32;
  }
  return 0;
}

std::int64_t GgufBytes(GgufType type, std::int64_t count) {
  if (type == GgufType::kQ8) {
    Require(count % kQ8Block == 0, "Q8_0 takes blocks of {} values, not {}", kQ8Block, count);
    return count / kQ8Block * kQ8BlockBytes;
  }
  return count * (type == GgufType::kF32 ? 4 : 2);
}

std::vector<std::byte> EncodeGguf(GgufType type, std::span<const float> values) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(GgufBytes(type, static_cast<std::int64_t>(values.size()))));
  switch (type) {
    case GgufType::kF32:
      std::memcpy(bytes.data(), values.data(), bytes.size());
      break;
    case GgufType::kF16:
      EncodeEach<std::uint16_t>(values, bytes.data(), [](float value) { return Float16(value).bits; });
      break;
    case GgufType::kBF16:
      EncodeEach<std::uint16_t>(values, bytes.data(), [](float value) { return BFloat16(value).bits; });
      break;
    case GgufType::kQ8:
      for (std::size_t block = 0; block * kQ8Block < values.size(); ++block) {
        EncodeQ8Block(values.subspan(block * kQ8Block, kQ8Block), bytes.data() + block * kQ8BlockBytes);
      }
      break;
  }
  return bytes;
}

}  // namespace trireme
