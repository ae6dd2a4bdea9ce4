// The checks of every load and store of a kernel, and of what copies and library calls read and write: bounds, reads of
// memory that nothing has written, and races. Two accesses to a byte, one of them a write, race unless both are atomic
// or something orders them: a block's barrier, __syncwarp between lanes of a warp, or between operations a stream, an
// event or the host. It does not matter in which order they ran. A cell holds the last write and the last read of four
// bytes; where threads access parts of the four, each byte has a cell of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::cuda_on_cpu {

enum class Access : std::uint8_t { kRead, kWrite, kAtomic };

// Checks an access by the current thread of a kernel. `code`: the return address of the check.
void CheckAccess(const void* address, std::size_t bytes, Access access, std::uintptr_t code);
// Checks an access by an operation that is no kernel: all bytes are GPU memory or page-locked.
void CheckRange(const void* address, std::size_t bytes, Access access);
// As a copy within GPU memory: bytes that nothing has written stay so at `to`.
void CheckCopy(void* to, const void* from, std::size_t bytes);
// Whether memory is known to the checks.
bool IsGpuMemory(const void* address);

// What was known about GPU memory; rounded to multiples of 4 bytes.
void ForgetAccesses(std::uintptr_t first, std::uint64_t bytes);
// A block begins: its shared arrays hold nothing. `dynamic`: the bytes of dynamic shared memory.
void BeginBlock(std::uint64_t dynamic);
void* DynamicSharedMemory();
inline constexpr std::uint64_t kMostDynamicShared = 227 * 1024;
// The calling host thread will run the blocks of a kernel with parameters that lie there.
void BeginGrid(const void* kernel, const void* parameters, std::size_t bytes);
void EndGrid();
// Whether the calling host thread runs a kernel.
extern constinit thread_local bool in_kernel;

}  // namespace trireme::cuda_on_cpu
