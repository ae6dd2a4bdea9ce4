// Element types of tensors, and bfloat16 on the host.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class DType : std::uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kInt32,
  kInt64,
  kUInt8,
  kFloat8E4M3,  // 4 bits of exponent, 3 of mantissa; up to 448, no infinity
  kFloat8E5M2,  // 5 bits of exponent, 2 of mantissa; up to 57344
  kUInt16,
};

constexpr std::int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
    case DType::kUInt16:
      return 2;
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return 1;
  }
  return 0;
}

constexpr bool IsFloat8(DType dtype) { return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2; }

// "fp32", "bf16", "fp16", "int32", "int64", "uint8", "e4m3", "e5m2", "uint16": as recipes and files spell them.
std::string_view Name(DType dtype);
// Inverse of Name(); an Error names the known ones.
DType ParseDType(std::string_view name);

// The upper half of a float, rounded to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U) {
      bits = static_cast<std::uint16_t>((word >> 16) | 0x40U);  // a quiet NaN stays one
    } else {
      bits = static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

}  // namespace trireme
