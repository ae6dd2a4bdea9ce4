// Element types of GGUF tensors and their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// Values are ggml's.
enum class GgufType : std::uint32_t { kF32 = 0, kF16 = 1, kQ8 = 8, kBF16 = 30 };

// "f32", "f16", "bf16", "q8_0"; an Error names the known ones.
GgufType ParseGgufType(const std::string& name);
// general.file_type of a file whose matrices have this type.
std::uint32_t GgufFileType(GgufType type);

// Values that share a scale in Q8_0.
inline constexpr std::int64_t kQ8Block = 32;
// Bytes of `count` values, which Q8_0 takes in whole blocks.
std::int64_t GgufBytes(GgufType type, std::int64_t count);
// F16 and BF16 round to nearest even. Q8_0: blocks of an F16 scale, the largest magnitude / 127, and 32 signed bytes.
std::vector<std::byte> EncodeGguf(GgufType type, std::span<const float> values);

}  // namespace trireme
