#include "cuda_on_cpu/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "cuda_on_cpu/access_check.h"
#include "cuda_on_cpu/block.h"
#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/symbols.h"
#include "cuda_on_cpu/warp.h"

// What the dialect's header defines for kernels.
#undef cudaLaunchKernelEx

namespace trireme::cuda_on_cpu {

Block* block = nullptr;

namespace {

Block& Now() {
  static Block block;
  return block;
}

std::set<const void*>& Run() {
  static std::set<const void*> kernels;
  return kernels;
}

void FiberMain();

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

// No thread may run: all live ones are at the barrier, or some wait for what does not come. Whether one may run now.
bool EndWait() {
  if (block->live == 0) {
    return false;
  }
  for (std::uint32_t i = 0; i * kWarpLanes < block->count; ++i) {
    if (ReportStuckWarp(i)) {
      return false;
    }
  }
  const auto at_barrier = [](const Thread& thread) { return thread.wait == Wait::kBlock && !thread.done; };
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

void EndThread() {
  block->threads[block->current].done = true;
  --block->live;
  LeaveWarp(block->current);
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

}  // namespace

std::string KernelName() { return FunctionName(reinterpret_cast<std::uintptr_t>(block->launch->kernel)); }

std::string Place(std::uint32_t thread, std::uintptr_t code) {
  return Describe(actor.run, thread) + (code == 0 ? "" : ", " + SourceLine(code));
}

void ReportWait(const char* kind, std::uint32_t thread, const std::string& text) {
  const std::uintptr_t code = block->threads[thread].code;
  Report(fmt::format("{} {} {}", kind, KernelName(), code), fmt::format("{}: {}{}", kind, Place(thread, code), text));
}

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

void RunKernel(const KernelLaunch& launch, Operation operation) {
  Run().insert(launch.kernel);
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
  for (const void* kernel : Run()) {
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
