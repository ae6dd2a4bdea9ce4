#include "cuda_on_cpu/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "cuda_on_cpu/access_check.h"
#include "cuda_on_cpu/fiber.h"
#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/symbols.h"
#include "cuda_on_cpu/warp_turns.h"

// What the dialect's header defines for kernels.
#undef cudaLaunchKernelEx

namespace trireme::cuda_on_cpu {
namespace {

constexpr std::uint32_t kWarpLanes = 32;
constexpr std::uint32_t kWholeWarp = ~0U;
constexpr std::uint32_t kMostThreads = 1024;
constexpr std::uint64_t kUnaskedShared = 48 * 1024;
constexpr std::size_t kMostParameterBytes = 4096;

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

Block& Now() {
  static Block block;
  return block;
}
Block* block = nullptr;

struct Kernels {
  std::map<const void*, std::uint64_t> allowed_shared;
  std::set<const void*> run;
};

Kernels& Known() {
  static Kernels kernels;
  return kernels;
}

void FiberMain();

std::string KernelName() { return FunctionName(reinterpret_cast<std::uintptr_t>(block->launch->kernel)); }

std::string Place(std::uint32_t thread, std::uintptr_t code) {
  return Describe(actor.run, thread) + (code == 0 ? "" : ", " + SourceLine(code));
}

void ReportWait(const char* kind, std::uint32_t thread, const std::string& text) {
  const std::uintptr_t code = block->threads[thread].code;
  Report(fmt::format("{} {} {}", kind, KernelName(), code), fmt::format("{}: {}{}", kind, Place(thread, code), text));
}

void ReportWait(const char* kind, std::uint32_t thread, std::uintptr_t code, const std::string& text) {
  block->threads[thread].code = code;
  ReportWait(kind, thread, text);
}

void MakeReady(std::uint32_t thread) {
  Warp& warp = block->warps[thread / kWarpLanes];
  warp.ready |= 1U << (thread % kWarpLanes);
  block->ready_warps |= 1U << (thread / kWarpLanes);
  block->threads[thread].wait = Wait::kNone;
}

std::uint32_t Chosen(std::uint32_t bits) {
  switch (Seed()) {
    case 1:
      return static_cast<std::uint32_t>(std::countr_zero(bits));
    case 2:
      return 31U - static_cast<std::uint32_t>(std::countl_zero(bits));
    default: {
      const std::uint32_t turn = Draw(32);
      return (static_cast<std::uint32_t>(std::countr_zero(std::rotr(bits, static_cast<int>(turn)))) + turn) % 32;
    }
  }
}

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
  ReportWait(kind, warp_index * kWarpLanes + lane, turn.code,
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

// No thread may run: all live ones are at the barrier, or some wait for what does not come. Whether one may run now.
bool EndWait() {
  if (block->live == 0) {
    return false;
  }
  std::uint32_t waiting_warps = 0;
  for (std::uint32_t i = 0; i * kWarpLanes < block->count; ++i) {
    if (ReportBegunTurns(i)) {
      return false;
    }
    waiting_warps |= block->warps[i].waiting != 0 ? 1U << i : 0;
  }
  const auto at_barrier = [](const Thread& thread) { return thread.wait == Wait::kBlock && !thread.done; };
  if (waiting_warps != 0) {
    const auto warp_index = static_cast<std::uint32_t>(std::countr_zero(waiting_warps));
    const Warp& warp = block->warps[warp_index];
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(warp.waiting));
    const Thread& thread = block->threads[warp_index * kWarpLanes + lane];
    const std::uint32_t missing = thread.mask & warp.present & ~warp.exited & ~warp.waiting;
    ReportWait("lanes at different places", warp_index * kWarpLanes + lane,
               missing != 0 ? fmt::format(" waits for {}, which wait{} elsewhere", Lanes(missing),
                                          std::popcount(missing) == 1 ? "s" : "")
                            : std::string(" waits with lanes that are in another operation or have another mask"));
    return false;
  }
  if (block->live < block->count) {
    const auto waits = std::ranges::find_if(block->threads.begin(), block->threads.begin() + block->count, at_barrier);
    const auto ended = std::ranges::find_if(block->threads.begin(), block->threads.begin() + block->count,
                                            [](const Thread& thread) { return thread.done; });
    ReportWait("barrier not reached by all", static_cast<std::uint32_t>(waits - block->threads.begin()),
               fmt::format(" waits, and {} of {} threads have ended, thread {} first", block->count - block->live,
                           block->count, ended - block->threads.begin()));
  }
  // Barriers in different places end each other too, on a GPU.
  std::uintptr_t code = 0;
  for (std::uint32_t i = 0; i < block->count; ++i) {
    const Thread& thread = block->threads[i];
    if (at_barrier(thread)) {
      if (code != 0 && thread.code != code) {
        ReportWait("barrier not reached by all", i,
                   fmt::format(" waits, and other threads wait at {}", SourceLine(code)));
        break;
      }
      code = thread.code;
    }
  }
  block->at_barrier = 0;
  ++actor.block_epoch;
  for (std::uint32_t i = 0; i < block->count; ++i) {
    if (!block->threads[i].done) {
      MakeReady(i);
    }
  }
  return true;
}

constexpr std::uint32_t kNoThread = ~0U;

// The thread that runs next, kNoThread when the block has ended.
std::uint32_t NextThread() {
  if (block->ready_warps == 0 && !EndWait()) {
    return kNoThread;
  }
  std::uint32_t warp_index = block->current / kWarpLanes;
  if ((block->ready_warps >> warp_index & 1U) == 0 || (Seed() > 2 && Draw(16) == 0)) {
    warp_index = Chosen(block->ready_warps);
  }
  Warp& warp = block->warps[warp_index];
  const std::uint32_t lane = Chosen(warp.ready);
  warp.ready &= ~(1U << lane);
  if (warp.ready == 0) {
    block->ready_warps &= ~(1U << warp_index);
  }
  return warp_index * kWarpLanes + lane;
}

void Become(std::uint32_t next) {
  block->current = next;
  actor.thread = static_cast<std::uint16_t>(next);
  actor.warp_epoch = block->warps[next / kWarpLanes].epoch;
}

// Leaves the current thread until it may run again.
void WaitHere() {
  Thread& own = block->threads[block->current];
  const std::uint32_t next = NextThread();
  if (next == kNoThread) {
    SwitchFiber(own.place, block->host);
    return;
  }
  if (next == block->current) {
    return Become(next);
  }
  Become(next);
  Thread& other = block->threads[next];
  if (other.stack < 0) {
    other.stack = block->stacks.back();
    block->stacks.pop_back();
    other.place = NewFiber(other.stack, FiberMain);
  }
  SwitchFiber(own.place, other.place);
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

void EndThread() {
  Thread& own = block->threads[block->current];
  own.done = true;
  --block->live;
  const std::uint32_t warp_index = block->current / kWarpLanes;
  Warp& warp = block->warps[warp_index];
  const std::uint32_t own_lane = block->current % kWarpLanes;
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

// Threads that begin after another has ended take its stack.
void FiberMain() {
  for (;;) {
    block->launch->thunk(block->launch->kernel, block->launch->parameters.tuple.get());
    const int stack = block->threads[block->current].stack;
    EndThread();
    const std::uint32_t next = NextThread();
    if (next == kNoThread) {
      SwitchFiber(block->left, block->host);
    }
    Become(next);
    Thread& other = block->threads[next];
    if (other.stack < 0) {
      other.stack = stack;
      continue;
    }
    block->stacks.push_back(stack);
    SwitchFiber(block->left, other.place);
  }
}

void RunBlock(dim3 index) {
  block->index = index;
  block->live = block->count;
  block->at_barrier = 0;
  block->ready_warps = 0;
  block->stacks.resize(kMostFibers);
  std::iota(block->stacks.rbegin(), block->stacks.rend(), 0);
  block->warps.fill({});
  for (std::uint32_t i = 0; i < block->count; ++i) {
    block->threads[i] = {};
    block->warps[i / kWarpLanes].present |= 1U << (i % kWarpLanes);
    MakeReady(i);
    if (i % kWarpLanes == 0) {
      block->turns[i / kWarpLanes].Reset();
    }
  }
  actor.block_epoch = 0;
  BeginBlock(block->launch->shared_bytes);
  block->current = 0;
  const std::uint32_t first = NextThread();
  Become(first);
  Thread& thread = block->threads[first];
  thread.stack = block->stacks.back();
  block->stacks.pop_back();
  thread.place = NewFiber(thread.stack, FiberMain);
  SwitchFiber(block->host, thread.place);
}

cudaError_t Refuse(const KernelLaunch& launch, const std::string& why, cudaError_t error) {
  const std::string name = FunctionName(reinterpret_cast<std::uintptr_t>(launch.kernel));
  Report("launch limits " + name, fmt::format("launch limits: {} is started with {}", name, why));
  return error;
}

}  // namespace

cudaError_t CheckLimits(const KernelLaunch& launch) {
  constexpr unsigned kMostOfGrid = 65535;
  constexpr unsigned kMostAlongZ = 64;
  const std::uint64_t threads = std::uint64_t{launch.threads.x} * launch.threads.y * launch.threads.z;
  const dim3 blocks = launch.blocks;
  if (std::uint64_t{blocks.x} * blocks.y * blocks.z == 0 || threads == 0) {
    return Refuse(launch, "no blocks or no threads", cudaErrorInvalidConfiguration);
  }
  if (blocks.x > 0x7fffffffU || blocks.y > kMostOfGrid || blocks.z > kMostOfGrid) {
    return Refuse(launch, fmt::format("{} x {} x {} blocks", blocks.x, blocks.y, blocks.z),
                  cudaErrorInvalidConfiguration);
  }
  const std::uint64_t bounds = BytesBefore(reinterpret_cast<std::uintptr_t>(launch.kernel));
#if defined(__aarch64__)
  const std::uint64_t promised = bounds / 4;
#else
  const std::uint64_t promised = bounds;
#endif
  if (threads > kMostThreads || launch.threads.z > kMostAlongZ || (promised > 0 && threads > promised)) {
    return Refuse(launch, fmt::format("{} threads, and has __launch_bounds__({})", threads, promised),
                  threads > kMostThreads ? cudaErrorInvalidConfiguration : cudaErrorLaunchOutOfResources);
  }
  const auto allowed = Known().allowed_shared.find(launch.kernel);
  const std::uint64_t most = allowed == Known().allowed_shared.end() ? kUnaskedShared : allowed->second;
  if (launch.shared_bytes > most) {
    return Refuse(launch, fmt::format("{} bytes of dynamic shared memory, and may have {}", launch.shared_bytes, most),
                  cudaErrorInvalidValue);
  }
  if (launch.parameters.bytes > kMostParameterBytes) {
    return Refuse(launch, fmt::format("{} bytes of parameters", launch.parameters.bytes), cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

void AllowDynamicShared(const void* kernel, std::uint64_t bytes) { Known().allowed_shared[kernel] = bytes; }

void RunKernel(const KernelLaunch& launch, Operation operation) {
  Known().run.insert(launch.kernel);
  block = &Now();
  block->launch = &launch;
  block->count = launch.threads.x * launch.threads.y * launch.threads.z;
  block->shape = launch.threads;
  block->grid = launch.blocks;
  const std::uint32_t blocks = launch.blocks.x * launch.blocks.y * launch.blocks.z;
  operation.kernel = launch.kernel;
  operation.blocks = launch.blocks;
  if (Seed() == 2) {
    operation.first_block = blocks - 1;
    operation.block_step = blocks - 1;
  } else if (Seed() > 2) {
    operation.first_block = Draw(blocks);
    do {
      operation.block_step = 1 + Draw(blocks);
    } while (std::gcd(operation.block_step, blocks) != 1);
  }
  if (blocks == 1) {
    operation.block_step = 1;
  }
  BeginOperation(operation, blocks);
  BeginGrid(launch.kernel, launch.parameters.tuple.get(), launch.parameters.tuple_bytes);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    if (i > 0) {
      NextRun();
    }
    RunBlock(BlockOf(CurrentOperation(), i));
  }
  EndGrid();
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

void AbandonBlock() {
  if (in_kernel) {
    SwitchFiber(block->left, block->host);
  }
}

void ReportMisaligned(const char* file, std::uint32_t line, std::uintptr_t address) {
  if (in_kernel) {
    const std::string name = std::string(file).substr(std::string(file).rfind('/') + 1);
    Report(fmt::format("misaligned {} {} {}", KernelName(), name, line),
           fmt::format("misaligned access: {}, {}:{} accesses address {:#x}", Describe(actor.run, actor.thread), name,
                       line, address));
    AbandonBlock();
  }
}

void ReportIndex(const char* file, std::uint32_t line, std::uintptr_t index) {
  if (in_kernel) {
    const std::string name = std::string(file).substr(std::string(file).rfind('/') + 1);
    Report(fmt::format("index {} {} {}", KernelName(), name, line),
           fmt::format("index out of bounds: {}, {}:{} takes element {} of an array", Describe(actor.run, actor.thread),
                       name, line, static_cast<std::int64_t>(index)));
  }
}

std::vector<std::string> KernelsRun() {
  std::set<std::string> names;
  for (const void* kernel : Known().run) {
    const std::string name = FunctionName(reinterpret_cast<std::uintptr_t>(kernel));
    names.insert(name.substr(0, name.find('<')));
  }
  return {names.begin(), names.end()};
}

// What kernels call.

unsigned CoordinateOf(Coordinate kind, int axis) {
  const auto part = [axis](const dim3& of) { return axis == 0 ? of.x : axis == 1 ? of.y : of.z; };
  switch (kind) {
    case Coordinate::kBlock:
      return part(block->index);
    case Coordinate::kBlockDim:
      return part(block->shape);
    case Coordinate::kGridDim:
      return part(block->grid);
    case Coordinate::kThread:
      break;
  }
  const std::uint32_t thread = block->current;
  return part(
      {thread % block->shape.x, thread / block->shape.x % block->shape.y, thread / block->shape.x / block->shape.y});
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

void BlockBarrier() {
  Thread& own = block->threads[block->current];
  own.wait = Wait::kBlock;
  own.code = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++block->at_barrier;
  WaitHere();
}

template <typename T, typename Combine>
T Atomic(T* address, std::uintptr_t code, const Combine& combine) {
  CheckAccess(address, sizeof(T), Access::kAtomic, code);
  const T before = *address;
  *address = combine(before);
  return before;
}

float AtomicAdd(float* address, float value) {
  return Atomic(address, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)),
                [value](float before) { return before + value; });
}

unsigned AtomicMax(unsigned* address, unsigned value) {
  return Atomic(address, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)),
                [value](unsigned before) { return std::max(before, value); });
}

int AtomicMin(int* address, int value) {
  return Atomic(address, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)),
                [value](int before) { return std::min(before, value); });
}

void* DynamicShared() { return DynamicSharedMemory(); }

}  // namespace trireme::cuda_on_cpu
