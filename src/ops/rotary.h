// Rotary positions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/operation.h"
#include "ops/tensor.h"

namespace trireme {

// Rotates pairs (i, i + R/2) of the first R elements of the query and key heads of packed rows [B*T, (H + 2*Hkv) * D]
// in place, by position * frequencies[i], and multiplies them by `magnitude`; position = row % T, or
// positions[row] % T. Without frequencies: R = D and theta^(-2i/D). inverse rotates back (the backward of the forward).
template <typename T>
struct Rotary {
  static constexpr std::string_view kName = "rotary";
  T qkv;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  float theta = 10000;
  std::span<const double> frequencies = {};  // on the host, R/2 of them
  float magnitude = 1;
  bool inverse = false;
  Tensor positions = {};  // int32 [B*T]; may be missing

  static constexpr auto Operands() { return std::array{Use<Rotary, T>{&Rotary::qkv, "qkv", Access::kUpdate}}; }

  // R / 2.
  std::int64_t pairs() const {
    return frequencies.empty() ? head_size / 2 : static_cast<std::int64_t>(frequencies.size());
  }
};
void Check(const Rotary<Tensor>& op);

}  // namespace trireme
