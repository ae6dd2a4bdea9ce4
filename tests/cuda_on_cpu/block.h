// The block that runs: its threads, its warps, and what each of them waits for. Shared by the executor's files alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda_on_cpu/executor.h"
#include "cuda_on_cpu/fiber.h"
#include "cuda_on_cpu/warp_turns.h"

namespace trireme::cuda_on_cpu {

inline constexpr std::uint32_t kWarpLanes = 32;
inline constexpr std::uint32_t kWholeWarp = ~0U;
inline constexpr std::uint32_t kMostThreads = 1024;

enum class Wait : std::uint8_t { kNone, kWarp, kBlock };

struct Thread {
  FiberPlace place;
  int stack = -1;  // none: it has not begun
  Wait wait = Wait::kNone;
  bool done = false;
  WarpOperation operation{};
  unsigned mask = 0;
  int operand = 0;
  std::uint64_t value = 0;
  std::uintptr_t code = 0;
};

struct Warp {
  std::uint32_t present = 0;  // lanes that the block has
  std::uint32_t exited = 0;
  std::uint32_t ready = 0;                                                 // may run
  std::uint32_t waiting = 0;                                               // in an operation of the warp
  std::uint16_t epoch = 0;                                                 // operations that order memory
  std::uint16_t synced = 0;                                                // the last epoch of the whole warp
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint16_t> pairs;  // of two lanes, where masks were smaller
};

struct Block {
  std::array<Thread, kMostThreads> threads;
  std::array<Warp, kMostThreads / kWarpLanes> warps;
  std::array<WarpTurns, kMostThreads / kWarpLanes> turns;
  std::vector<int> stacks;  // free
  std::uint32_t count = 0;
  std::uint32_t live = 0;
  std::uint32_t at_barrier = 0;
  std::uint32_t ready_warps = 0;
  std::uint32_t current = 0;
  dim3 shape;
  dim3 index;
  dim3 grid;
  const KernelLaunch* launch = nullptr;
  FiberPlace host;
  FiberPlace left;  // where an ended fiber stood
};

extern Block* block;

inline void MakeReady(std::uint32_t thread) {
  Warp& warp = block->warps[thread / kWarpLanes];
  warp.ready |= 1U << (thread % kWarpLanes);
  block->ready_warps |= 1U << (thread / kWarpLanes);
  block->threads[thread].wait = Wait::kNone;
}

// Leaves the current thread until it may run again.
void WaitHere();
std::string KernelName();
// `text`: what the thread, which is in the code that it noted, waits for.
void ReportWait(const char* kind, std::uint32_t thread, const std::string& text);

}  // namespace trireme::cuda_on_cpu
