// Ranks that share a GPU begin a pass together. One that is ahead, because rank 0 writes its log, say, puts kernels
// into the GPU's queue that wait for the others; when the queue is full it waits within the driver, and ranks of the
// same process then wait there as well.
#pragma once

#include "comm/communicator.h"

namespace trireme {

// Before work that is launched for a whole micro batch or more. Collective; nothing where ranks have GPUs of their own.
inline void BeginTogether(Communicator& world) {
  if (world.shares_device()) {
    world.Verify();
  }
}

}  // namespace trireme
