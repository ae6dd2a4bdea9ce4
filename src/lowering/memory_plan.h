// Places of tensors within blocks of memory: what a micro batch keeps, and the scratch of the module at work.
// A plan is made once from sizes; modules then find their tensors at the planned offsets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/tensor_spec.h"

namespace trireme {

// Planned offsets are multiples of this; equal to the arena's alignment.
inline constexpr std::int64_t kPlanAlignment = kTensorAlignment;

// kWeights: what serves all micro batches of a step: fp8 copies of a block's weights, what goes with them, and loads of
// experts.
enum class Area : std::uint8_t { kAbsent, kKept, kScratch, kGiven, kWeights };

struct Place {
  Area area = Area::kAbsent;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::int64_t offset = 0;
  bool present() const { return area != Area::kAbsent; }
};

// Hands out consecutive places of one area, as a stack: Release() gives back all that was added after a mark.
class AreaPlanner {
 public:
  explicit AreaPlanner(Area area) : area_(area) {}

  Place Add(DType dtype, const Shape& shape) {
    const Place place{area_, dtype, shape, used_};
    used_ += RoundUp(shape.count() * SizeOf(dtype), kPlanAlignment);
    peak_ = std::max(peak_, used_);
    return place;
  }
  std::int64_t Mark() const { return used_; }
  void Release(std::int64_t mark) { used_ = mark; }
  // High-water mark in bytes.
  std::int64_t peak() const { return peak_; }

 private:
  Area area_;
  std::int64_t used_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace trireme
