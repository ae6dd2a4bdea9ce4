// Which of a block's four products train.dtype = "fp8" makes in fp8 (train.fp8_products): where operands are small, the
// copies cost more than the products save.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The first four may be made in fp8, the others never: the product with the output table, a router's logits, the gate
// of a shared expert, and the two of experts. kFfnIn and kFfnOut stand for a shared expert where there are experts.
enum class BlockLinear : std::uint8_t {
  kQkv,
  kAttentionOut,
  kFfnIn,
  kFfnOut,
  kHead,
  kRouter,
  kGate,
  kExpertIn,
  kExpertOut
};
inline constexpr int kBlockLinears = 4;  // that may be made in fp8

// A bit for each BlockLinear.
using LinearSet = std::uint8_t;
inline constexpr LinearSet kAllLinears = 0xf;
constexpr LinearSet SetOf(BlockLinear linear) { return static_cast<LinearSet>(1U << static_cast<unsigned>(linear)); }
constexpr bool Holds(LinearSet set, BlockLinear linear) {
  return static_cast<int>(linear) < kBlockLinears && (set & SetOf(linear)) != 0;
}

// "all", "none" or names such as "qkv,ffn_in"; "auto" before a choice was made: all. An Error for anything else.
LinearSet ParseFloat8Products(const std::string& text);
std::string Float8ProductsText(LinearSet set);

}  // namespace trireme
