// The functions that code compiled with -fsanitize=thread calls before every load and store, and what
// -fsanitize=alignment,bounds calls where a check fails. The sanitizers' own libraries are not linked.
#include <cstddef>
#include <cstdint>

#include "cuda_on_cpu/access_check.h"
#include "cuda_on_cpu/executor.h"

using trireme::cuda_on_cpu::Access;
using trireme::cuda_on_cpu::CheckAccess;
using trireme::cuda_on_cpu::in_kernel;

namespace {

// What the compiler tells of a place; its layout is the compiler's.
struct SourcePlace {
  const char* file;
  std::uint32_t line;
  std::uint32_t column;
};

}  // namespace

#define TRIREME_HOOKS(bytes)                                                                                      \
  void __tsan_read##bytes(void* address) {                                                                        \
    if (in_kernel) {                                                                                              \
      CheckAccess(address, bytes, Access::kRead, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));  \
    }                                                                                                             \
  }                                                                                                               \
  void __tsan_write##bytes(void* address) {                                                                       \
    if (in_kernel) {                                                                                              \
      CheckAccess(address, bytes, Access::kWrite, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))); \
    }                                                                                                             \
  }

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
TRIREME_HOOKS(1)
TRIREME_HOOKS(2)
TRIREME_HOOKS(4)
TRIREME_HOOKS(8)
TRIREME_HOOKS(16)
void __tsan_read_range(void* address, std::size_t bytes) {
  if (in_kernel) {
    CheckAccess(address, bytes, Access::kRead, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
  }
}
void __tsan_write_range(void* address, std::size_t bytes) {
  if (in_kernel) {
    CheckAccess(address, bytes, Access::kWrite, reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
  }
}
void __tsan_init() {}
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** /*at*/, void* /*value*/) {}
void __tsan_vptr_read(void** /*at*/) {}
// Hooks for the host's code, such as counts of shared pointers.
unsigned char __tsan_atomic8_load(const volatile unsigned char* at, int /*order*/) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_fetch_add(volatile int* at, int value, int /*order*/) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}

void __ubsan_handle_type_mismatch_v1(void* data, std::uintptr_t address) {
  const auto* const place = static_cast<SourcePlace*>(data);
  trireme::cuda_on_cpu::ReportMisaligned(place->file, place->line, address);
}
void __ubsan_handle_out_of_bounds(void* data, std::uintptr_t index) {
  const auto* const place = static_cast<SourcePlace*>(data);
  trireme::cuda_on_cpu::ReportIndex(place->file, place->line, index);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
