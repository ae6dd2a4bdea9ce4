#include "data/samples/keyed_permutation.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "base/random.h"

namespace trireme {
namespace {

constexpr int kRounds = 4;

}  // namespace

KeyedPermutation::KeyedPermutation(std::uint64_t size, std::uint64_t key)
    : size_(size), key_(key), half_bits_(std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)) {
  assert(size > 0);
}

std::uint64_t KeyedPermutation::Encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = RandomBits(key_ + static_cast<std::uint64_t>(round), right) & mask;
    const std::uint64_t next = left ^ mixed;
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

std::uint64_t KeyedPermutation::operator()(std::uint64_t position) const {
  assert(position < size_);
  std::uint64_t value = position;
  do {
    value = Encrypt(value);
  } while (value >= size_);
  return value;
}

}  // namespace trireme
