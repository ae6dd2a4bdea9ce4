// Shuffles of a whole warp, by turns: every lane takes part in turn 0, 1, 2, … A lane goes on as soon as the lane whose
// value it takes has come to the turn, so that fibers seldom wait; a turn is over when all lanes have their values. A
// lane that stays away from a turn that others have begun is found when it ends, waits at a barrier or takes another
// turn.
#pragma once

#include <array>
#include <cstdint>

#include "cuda_on_cpu/kernel_dialect.h"

namespace trireme::cuda_on_cpu {

struct Turn {
  std::uint32_t number = 0;
  std::uint32_t arrived = 0;  // lanes; none: the turn is not begun
  std::uint32_t passed = 0;   // lanes that have their value
  WarpOperation operation{};
  std::uintptr_t code = 0;  // of the lane that began it
  std::array<std::uint64_t, 32> values;
};

struct WarpTurns {
  static constexpr std::uint32_t kAtOnce = 64;  // how far lanes may be apart
  std::array<Turn, kAtOnce> turns;
  std::array<std::uint32_t, 32> next{};     // of each lane
  std::array<std::uint32_t, 32> waiters{};  // of each lane: those that wait for its value
  std::uint32_t waiting_for_room = 0;       // lanes that are too far ahead
  std::uint32_t begun = 0;                  // turns that some lanes have begun and not all have passed

  void Reset() {
    if (begun > 0) {
      for (Turn& turn : turns) {
        turn.arrived = 0;
        turn.passed = 0;
      }
    }
    next.fill(0);
    waiters.fill(0);
    waiting_for_room = 0;
    begun = 0;
  }
  // The turn that the lane takes next or is in, where lanes have begun it; else null.
  const Turn* Begun(std::uint32_t lane) const {
    const Turn& turn = turns[next[lane] % kAtOnce];
    return turn.arrived != 0 && turn.number == next[lane] ? &turn : nullptr;
  }
};

}  // namespace trireme::cuda_on_cpu
