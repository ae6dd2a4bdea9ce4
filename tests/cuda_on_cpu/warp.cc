#include "cuda_on_cpu/warp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "cuda_on_cpu/block.h"

// What the dialect's header defines for kernels.
#undef cudaLaunchKernelEx

namespace trireme::cuda_on_cpu {
namespace {

std::string Lanes(std::uint32_t mask) {
  std::string text;
  int count = 0;
  for (; mask != 0; mask &= mask - 1, ++count) {
    if (count < 4) {
      text += fmt::format("{}{}", count == 0 ? "" : ", ", std::countr_zero(mask));
    }
  }
  return fmt::format("lane{} {}{}", count == 1 ? "" : "s", text,
                     count > 4 ? fmt::format(" and {} more", count - 4) : "");
}

std::uint32_t SourceLane(const Thread& own, std::uint32_t lane) {
  const auto operand = static_cast<std::uint32_t>(own.operand);
  return (own.operation == WarpOperation::kShuffle ? operand : lane ^ operand) % kWarpLanes;
}

std::uint64_t ResultOf(const Thread& own, std::uint32_t warp, std::uint32_t lane, std::uint32_t members) {
  const auto value = [&](std::uint32_t of) { return block->threads[warp * kWarpLanes + of].value; };
  switch (own.operation) {
    case WarpOperation::kSync:
      return 0;
    case WarpOperation::kShuffle:
    case WarpOperation::kShuffleXor: {
      const std::uint32_t from = SourceLane(own, lane);
      return (members >> from & 1U) != 0 ? value(from) : ~std::uint64_t{0};
    }
    case WarpOperation::kReduceMax: {
      std::uint64_t most = 0;
      for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
        most = std::max(most, value(static_cast<std::uint32_t>(std::countr_zero(rest))));
      }
      return most;
    }
  }
  return 0;
}

// A turn that some lanes of the warp have begun and others stay away from.
void ReportTurn(const char* kind, std::uint32_t warp_index, const Turn& turn, const char* one, const char* many) {
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(turn.arrived));
  const std::uint32_t missing = block->warps[warp_index].present & ~turn.arrived;
  const std::uint32_t thread = warp_index * kWarpLanes + lane;
  block->threads[thread].code = turn.code;
  ReportWait(kind, thread,
             fmt::format(" waits for {}, which {}", Lanes(missing), std::popcount(missing) == 1 ? one : many));
}

// Reports it where lanes of the warp stay away from a turn. Whether there is one.
bool ReportBegunTurns(std::uint32_t warp_index) {
  const WarpTurns& turns = block->turns[warp_index];
  if (turns.begun == 0) {
    return false;
  }
  std::uint32_t lane = 0;
  while (turns.Begun(lane) == nullptr) {
    ++lane;
  }
  ReportTurn("lanes at different places", warp_index, *turns.Begun(lane), "waits elsewhere", "wait elsewhere");
  return true;
}

// Ends the warp's operation that the lane waits in, if all live lanes of its mask are there.
void TryToEnd(std::uint32_t warp_index, std::uint32_t lane) {
  Warp& warp = block->warps[warp_index];
  const Thread& first = block->threads[warp_index * kWarpLanes + lane];
  const std::uint32_t members = first.mask & warp.present & ~warp.exited;
  if ((warp.waiting & members) != members) {
    return;
  }
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const Thread& other = block->threads[warp_index * kWarpLanes + static_cast<std::uint32_t>(std::countr_zero(rest))];
    if (other.operation != first.operation || other.mask != first.mask) {
      return;
    }
  }
  if (members == (warp.present & ~warp.exited) && ReportBegunTurns(warp_index)) {
    AbandonBlock();
  }
  if ((first.mask & ~members) != 0) {
    ReportWait("absent lane", warp_index * kWarpLanes + lane,
               fmt::format(" waits for {}, which {} ended or never began", Lanes(first.mask & ~members),
                           std::popcount(first.mask & ~members) == 1 ? "has" : "have"));
  }
  std::array<std::uint64_t, kWarpLanes> results{};
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const auto member = static_cast<std::uint32_t>(std::countr_zero(rest));
    results[member] = ResultOf(block->threads[warp_index * kWarpLanes + member], warp_index, member, members);
  }
  if (first.operation == WarpOperation::kSync) {
    ++warp.epoch;
    if (members == (warp.present & ~warp.exited)) {
      warp.synced = warp.epoch;
    } else {
      for (std::uint32_t a = members; a != 0; a &= a - 1) {
        for (std::uint32_t b = members; b != 0; b &= b - 1) {
          warp.pairs[{std::countr_zero(a), std::countr_zero(b)}] = warp.epoch;
        }
      }
    }
  }
  warp.waiting &= ~members;
  for (std::uint32_t rest = members; rest != 0; rest &= rest - 1) {
    const auto member = static_cast<std::uint32_t>(std::countr_zero(rest));
    block->threads[warp_index * kWarpLanes + member].value = results[member];
    MakeReady(warp_index * kWarpLanes + member);
  }
}

void MakeLanesReady(std::uint32_t warp_index, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    MakeReady(warp_index * kWarpLanes + static_cast<std::uint32_t>(std::countr_zero(lanes)));
  }
}

// The current thread takes its next turn. Returns its value.
std::uint64_t TakeTurn(std::uint32_t index) {
  const std::uint32_t warp_index = index / kWarpLanes;
  const std::uint32_t lane = index % kWarpLanes;
  WarpTurns& warp = block->turns[warp_index];
  Thread& own = block->threads[index];
  const std::uint32_t number = warp.next[lane];
  Turn& turn = warp.turns[number % WarpTurns::kAtOnce];
  while (turn.arrived != 0 && turn.number != number) {
    warp.waiting_for_room |= 1U << lane;
    own.wait = Wait::kWarp;
    WaitHere();
  }
  if (turn.arrived == 0) {
    turn.number = number;
    turn.operation = own.operation;
    turn.code = own.code;
    ++warp.begun;
  } else if (turn.operation != own.operation) {
    ReportWait("lanes at different places", index,
               " waits with lanes that are in another operation or have another mask");
    AbandonBlock();
  }
  turn.arrived |= 1U << lane;
  turn.values[lane] = own.value;
  std::uint32_t released = 0;
  for (std::uint32_t rest = warp.waiters[lane]; rest != 0; rest &= rest - 1) {
    const auto waiter = static_cast<std::uint32_t>(std::countr_zero(rest));
    released |= warp.next[waiter] == number ? 1U << waiter : 0;
  }
  warp.waiters[lane] &= ~released;
  MakeLanesReady(warp_index, released);
  const std::uint32_t from = SourceLane(own, lane);
  if ((turn.arrived >> from & 1U) == 0) {
    warp.waiters[from] |= 1U << lane;
    own.wait = Wait::kWarp;
    WaitHere();
  }
  const std::uint64_t value = turn.values[from];
  ++warp.next[lane];
  turn.passed |= 1U << lane;
  if (turn.passed == kWholeWarp) {
    turn.arrived = 0;
    turn.passed = 0;
    --warp.begun;
    MakeLanesReady(warp_index, std::exchange(warp.waiting_for_room, 0));
  }
  return value;
}

}  // namespace

bool ReportStuckWarp(std::uint32_t warp_index) {
  const Warp& warp = block->warps[warp_index];
  if (ReportBegunTurns(warp_index)) {
    return true;
  }
  if (warp.waiting == 0) {
    return false;
  }
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(warp.waiting));
  const Thread& thread = block->threads[warp_index * kWarpLanes + lane];
  const std::uint32_t missing = thread.mask & warp.present & ~warp.exited & ~warp.waiting;
  ReportWait("lanes at different places", warp_index * kWarpLanes + lane,
             missing != 0 ? fmt::format(" waits for {}, which wait{} elsewhere", Lanes(missing),
                                        std::popcount(missing) == 1 ? "s" : "")
                          : std::string(" waits with lanes that are in another operation or have another mask"));
  return true;
}

void LeaveWarp(std::uint32_t thread) {
  const std::uint32_t warp_index = thread / kWarpLanes;
  Warp& warp = block->warps[warp_index];
  const std::uint32_t own_lane = thread % kWarpLanes;
  warp.exited |= 1U << own_lane;
  if (const Turn* const turn = block->turns[warp_index].Begun(own_lane)) {
    ReportTurn("absent lane", warp_index, *turn, "ended or never began", "ended or never began");
    AbandonBlock();
  }
  for (std::uint32_t rest = warp.waiting; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    if ((warp.waiting >> lane & 1U) != 0) {
      TryToEnd(warp_index, lane);
    }
  }
}

bool SameWarp(std::uint32_t a, std::uint32_t b) { return a / kWarpLanes == b / kWarpLanes; }

bool WarpSyncedSince(std::uint32_t a, std::uint32_t b, std::uint16_t epoch) {
  if (!SameWarp(a, b) || block == nullptr) {
    return false;
  }
  const Warp& warp = block->warps[a / kWarpLanes];
  if (warp.synced > epoch) {
    return true;
  }
  const auto pair = warp.pairs.find({a % kWarpLanes, b % kWarpLanes});
  return pair != warp.pairs.end() && pair->second > epoch;
}

std::uint64_t Exchange(WarpOperation operation, unsigned mask, std::uint64_t value, int operand) {
  const std::uint32_t index = block->current;
  Thread& own = block->threads[index];
  own.operation = operation;
  own.mask = mask;
  own.value = value;
  own.operand = operand;
  own.code = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  const std::uint32_t lane = index % kWarpLanes;
  const Warp& warp = block->warps[index / kWarpLanes];
  const bool shuffles = operation == WarpOperation::kShuffle || operation == WarpOperation::kShuffleXor;
  if (shuffles && mask == kWholeWarp && warp.present == kWholeWarp &&
      (warp.exited == 0 || block->turns[index / kWarpLanes].Begun(lane) != nullptr)) {
    return TakeTurn(index);
  }
  own.wait = Wait::kWarp;
  if ((mask >> lane & 1U) == 0) {
    ReportWait("absent lane", index, " is not in its own mask");
    own.mask |= 1U << lane;
  }
  block->warps[index / kWarpLanes].waiting |= 1U << lane;
  TryToEnd(index / kWarpLanes, lane);
  WaitHere();
  return block->threads[index].value;
}

}  // namespace trireme::cuda_on_cpu
