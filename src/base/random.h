// Counter-based random numbers: a value is a pure function of a key and an index, so that every layout draws the same
// weights, batches and dropout masks whatever order it asks in. Header-only where a GPU kernel needs the same bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/host_device.h"

namespace trireme {

// A 64-bit finaliser (splitmix64): every bit of the result depends on every bit of `x`.
TRIREME_HOST_DEVICE inline std::uint64_t Mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

TRIREME_HOST_DEVICE inline std::uint64_t CombineKeys(std::uint64_t a, std::uint64_t b) { return Mix64(a ^ Mix64(b)); }

// 64 random bits for (key, index).
TRIREME_HOST_DEVICE inline std::uint64_t RandomBits(std::uint64_t key, std::uint64_t index) {
  return Mix64(key + Mix64(index));
}

// Uniform in [0, 1) with 24 bits, exact in float.
TRIREME_HOST_DEVICE inline float RandomUniform(std::uint64_t key, std::uint64_t index) {
  return static_cast<float>(RandomBits(key, index) >> 40) * (1.0F / 16777216.0F);
}

// Uniform in [0, bound); bound > 0. The bias of the multiply-shift is below bound / 2^64.
inline std::uint64_t RandomBelow(std::uint64_t key, std::uint64_t index, std::uint64_t bound) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(RandomBits(key, index)) * bound) >> 64);
}

// A key from a seed and a name (FNV-1a, then mixed).
std::uint64_t RandomKey(std::uint64_t seed, std::string_view name);

}  // namespace trireme
