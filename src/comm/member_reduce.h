// Sums over the members of a group in the members' order, the same bits whichever comes first.
#pragma once

#include <span>

#include "comm/communicator.h"

namespace trireme {

// to = sum or maximum of `sources`, each of to's type and count in memory of `device`; they may include to.data.
// Floating-point types are left to Ops::Reduce. Integers are added exactly, on the host, and the call then waits for
// the device. Any other type is an Error.
void ReduceMembers(Device& device, const Tensor& to, std::span<const void* const> sources, ReduceOp op);

}  // namespace trireme
