// Stacks for the threads of a block, and switches between them on one host thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_on_cpu/symbols.h"

namespace trireme::cuda_on_cpu {

inline constexpr int kMostFibers = 1025;

// Where a fiber stands while another runs.
struct FiberPlace {
  void* stack_pointer = nullptr;
};

// Memory of all stacks; a page between two of them cannot be touched.
AddressRange FiberStacks();
// A place from which `entry`, which never returns, runs on the stack.
FiberPlace NewFiber(int stack, void (*entry)());
// Goes on at `to`; returns when something switches to `from`.
void SwitchFiber(FiberPlace& from, const FiberPlace& to);

}  // namespace trireme::cuda_on_cpu
