#include "device/arena.h"

#include "base/error.h"

namespace trireme {

Arena::Arena(Device& device, const MemoryUse& planned) : device_(device), planned_(planned) {
  if (planned_[MemoryKind::kHost] > 0) {
    host_block_ = static_cast<char*>(device_.AllocateHost(planned_[MemoryKind::kHost]));
  }
  try {
    block_ = static_cast<char*>(device_.Allocate(planned_.total()));
  } catch (...) {
    device_.FreeHost(host_block_);
    throw;
  }
}

Arena::~Arena() {
  device_.Free(block_);
  device_.FreeHost(host_block_);
}

Tensor Arena::Allocate(MemoryKind kind, DType dtype, const Shape& shape) {
  const std::int64_t bytes = RoundUp(shape.count() * SizeOf(dtype), kArenaAlignment);
  Require(used_[kind] + bytes <= planned_[kind],
          "{} memory: {} bytes were planned, {} are in use and {} more were asked for", Name(kind), planned_[kind],
          used_[kind], bytes);
  char* const next = kind == MemoryKind::kHost ? host_block_ + used_[kind] : block_ + used_.total();
  used_[kind] += bytes;
  return {next, dtype, shape};
}

}  // namespace trireme
