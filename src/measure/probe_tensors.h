// Tensors for the time of a measurement, filled with random numbers: constant ones would draw less power than a step.
#pragma once

#include <algorithm>
#include <vector>

#include "device/device.h"

namespace trireme {

class ProbeTensors {
 public:
  // footprint: bytes that RotatingOperands fills with copies.
  explicit ProbeTensors(Device& device, std::int64_t footprint = 0);
  ~ProbeTensors();
  ProbeTensors(const ProbeTensors&) = delete;
  ProbeTensors& operator=(const ProbeTensors&) = delete;

  // Normal numbers for working types, zeros for others.
  Tensor Make(DType dtype, const Shape& shape);
  // int32 below `most`.
  Tensor MakeIndices(std::int64_t count, std::int64_t most);
  // Bytes that were made so far.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t footprint() const { return footprint_; }

 private:
  Device& device_;
  std::int64_t footprint_;
  Tensor noise_;
  std::vector<void*> memory_;
  std::int64_t bytes_ = 0;
};

// Arguments of one operation in several copies that take turns. Together they are larger than a core's caches, as the
// tensors of a training step are: weights, gradients and kept activations are touched once a micro batch.
template <typename Arguments>
class RotatingOperands {
 public:
  template <typename Make>
  RotatingOperands(ProbeTensors& tensors, const Make& make) {
    constexpr std::int64_t kMostCopies = 64;
    const std::int64_t before = tensors.bytes();
    copies_.push_back(make());
    const std::int64_t each = std::max<std::int64_t>(tensors.bytes() - before, 1);
    for (std::int64_t copy = 1; copy < std::min(kMostCopies, tensors.footprint() / each); ++copy) {
      copies_.push_back(make());
    }
  }
  const Arguments& Next() { return copies_[next_++ % copies_.size()]; }

 private:
  std::vector<Arguments> copies_;
  std::size_t next_ = 0;
};

}  // namespace trireme
