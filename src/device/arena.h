// Memory planned before the first step: one block of exactly the planned bytes of the device, and one of the host where
// MemoryKind::kHost is planned (Device::AllocateHost), handed out by kind and never given back. Asking for more than
// planned is an Error, so a plan and a run cannot drift apart.
#pragma once

#include "base/accounting.h"
#include "base/tensor_spec.h"
#include "device/device.h"

namespace trireme {

// Every tensor of an arena starts at a multiple of this; plans round with it too.
inline constexpr std::int64_t kArenaAlignment = kTensorAlignment;

class Arena {
 public:
  // Allocates planned.total() bytes of `device`, which must outlive the arena, and the planned ones of the host. Throws
  // when one has not enough.
  Arena(Device& device, const MemoryUse& planned);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Uninitialised memory, valid as long as the arena. Zero-size tensors are given, but hold nothing. Each tensor starts
  // where the one before ends, rounded up to the alignment.
  Tensor Allocate(MemoryKind kind, DType dtype, const Shape& shape);
  // A vector; nothing for a spec of no elements.
  Tensor Allocate(const TensorSpec& spec) {
    return spec.count > 0 ? Allocate(spec.kind, spec.dtype, {spec.count}) : Tensor{};
  }

  // High-water mark by kind: what was handed out, rounded as planned.
  const MemoryUse& used() const { return used_; }
  const MemoryUse& planned() const { return planned_; }
  Device& device() { return device_; }

 private:
  Device& device_;
  MemoryUse planned_;
  MemoryUse used_;
  char* block_ = nullptr;
  char* host_block_ = nullptr;  // where kHost is planned
};

}  // namespace trireme
