#include "cuda_on_cpu/fiber.h"

#include <sys/mman.h>

#include <stdexcept>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>

#include <vector>
#endif

// trireme_switch_fiber(void** from, void* to): keeps what the ABI has a function keep.
#if defined(__x86_64__)
asm(R"(
.text
.globl trireme_switch_fiber
.type trireme_switch_fiber, @function
trireme_switch_fiber:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size trireme_switch_fiber, .-trireme_switch_fiber
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl trireme_switch_fiber
.type trireme_switch_fiber, %function
trireme_switch_fiber:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size trireme_switch_fiber, .-trireme_switch_fiber
)");
#endif

namespace trireme::cuda_on_cpu {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr std::size_t kGuardBytes = std::size_t{64} << 10;  // a page of any machine

char* StackTop(int stack) {
  return reinterpret_cast<char*>(FiberStacks().first) +
         static_cast<std::size_t>(stack + 1) * (kStackBytes + kGuardBytes);
}

}  // namespace

AddressRange FiberStacks() {
  static const AddressRange stacks = [] {
    const std::size_t bytes = kMostFibers * (kStackBytes + kGuardBytes);
    void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::runtime_error("no memory for the stacks of a block's threads");
    }
    for (int i = 0; i < kMostFibers; ++i) {
      mprotect(static_cast<char*>(memory) + static_cast<std::size_t>(i) * (kStackBytes + kGuardBytes) + kGuardBytes,
               kStackBytes, PROT_READ | PROT_WRITE);
    }
    return AddressRange{reinterpret_cast<std::uintptr_t>(memory), bytes};
  }();
  return stacks;
}

#if defined(__x86_64__) || defined(__aarch64__)

extern "C" void trireme_switch_fiber(void** from, void* to);

void SwitchFiber(FiberPlace& from, const FiberPlace& to) {
  trireme_switch_fiber(&from.stack_pointer, to.stack_pointer);
}

FiberPlace NewFiber(int stack, void (*entry)()) {
  auto* const top = reinterpret_cast<void**>(StackTop(stack));
#if defined(__x86_64__)
  // Six registers, the address to return to, and one word that aligns the stack as a call would.
  top[-2] = reinterpret_cast<void*>(entry);
  return {top - 8};
#else
  top[-20 + 11] = reinterpret_cast<void*>(entry);  // x30
  return {top - 20};
#endif
}

#else

namespace {

std::vector<ucontext_t>& Contexts() {
  static std::vector<ucontext_t> contexts(kMostFibers + 1);
  return contexts;
}

}  // namespace

void SwitchFiber(FiberPlace& from, const FiberPlace& to) {
  // A place that has no context yet is the host thread's own.
  if (from.stack_pointer == nullptr) {
    from.stack_pointer = &Contexts()[kMostFibers];
  }
  swapcontext(static_cast<ucontext_t*>(from.stack_pointer), static_cast<ucontext_t*>(to.stack_pointer));
}

FiberPlace NewFiber(int stack, void (*entry)()) {
  ucontext_t& context = Contexts()[static_cast<std::size_t>(stack)];
  getcontext(&context);
  context.uc_stack.ss_sp = StackTop(stack) - kStackBytes;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
  return {&context};
}

#endif

}  // namespace trireme::cuda_on_cpu
