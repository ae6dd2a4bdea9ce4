#include "device/arena.h"

#include "base/error.h"

namespace trireme {

Arena::Arena(Device& device, const MemoryUse& planned) : device_(device), planned_(planned) {
  block_ = static_cast<char*>(device_.Allocate(planned_.total()));
}

Arena::~Arena() { device_.Free(block_); }

Tensor Arena::Allocate(MemoryKind kind, DType dtype, const Shape& shape) {
  const std::int64_t bytes = RoundUp(shape.count() * SizeOf(dtype), kArenaAlignment);
  Require(used_[kind] + bytes <= planned_[kind],
          "{} memory: {} bytes were planned, {} are in use and {} more were asked for", Name(kind), planned_[kind],
          used_[kind], bytes);
  Tensor tensor{block_ + offset_, dtype, shape};
  offset_ += bytes;
  used_[kind] += bytes;
  return tensor;
}

}  // namespace trireme
