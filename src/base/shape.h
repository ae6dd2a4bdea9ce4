// Extents of a tensor, at most four, kept in place (no allocation).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace trireme {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    for (const std::int64_t extent : extents) {
      extents_[static_cast<std::size_t>(rank_++)] = extent;
    }
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return extents_[static_cast<std::size_t>(dim)]; }
  std::int64_t& operator[](int dim) { return extents_[static_cast<std::size_t>(dim)]; }
  // Product of the extents; 1 for rank 0.
  std::int64_t count() const {
    std::int64_t product = 1;
    for (int dim = 0; dim < rank_; ++dim) {
      product *= extents_[static_cast<std::size_t>(dim)];
    }
    return product;
  }
  bool operator==(const Shape&) const = default;
  // "[2, 3]"
  std::string ToString() const;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

// The smallest multiple of `unit` that is at least `value`.
constexpr std::int64_t RoundUp(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }
constexpr std::int64_t CeilDiv(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit; }

}  // namespace trireme
