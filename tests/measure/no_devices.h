// A machine on which measurements fail.
#pragma once

#include <stdlib.h>

#include <functional>

#include "comm/rank_runner.h"

namespace trireme::test {

// Calls `body` on every rank while no further CPU device can be made. `body` is collective over the world.
inline void WithoutFurtherDevices(RankContext& context, const std::function<void()>& body) {
  context.world.Barrier();  // every rank has its own device
  if (context.world.rank() == 0) {
    setenv("TRIREME_CPU_LEVEL", "none", 1);
  }
  context.world.Barrier();
  body();
  context.world.Barrier();
  if (context.world.rank() == 0) {
    unsetenv("TRIREME_CPU_LEVEL");
  }
}

}  // namespace trireme::test
