// A shuffle that needs no memory: a bijection of [0, size) chosen by a key, evaluated one point at a time. Four-round
// Feistel network over the smallest even number of bits that holds `size`, walked until the value falls inside.
#pragma once

#include <cstdint>

namespace trireme {

class KeyedPermutation {
 public:
  // size in [1, 2^62].
  KeyedPermutation(std::uint64_t size, std::uint64_t key);
  // Image of `position`, which is in [0, size). Expected cost: below four network evaluations.
  std::uint64_t operator()(std::uint64_t position) const;

 private:
  std::uint64_t Encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t key_;
  int half_bits_;
};

}  // namespace trireme
