// The memory of the simulated GPU, and page-locked memory of the host: one reserved range, of which every allocation
// has 256 bytes before and behind it that belong to none.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda_on_cpu/symbols.h"

namespace trireme::cuda_on_cpu {

struct Allocation {
  std::uintptr_t first = 0;
  std::uint64_t bytes = 0;
  bool on_host = false;
  bool freed = false;
  // For memory taken in a stream's order: whether it is there, and the run in which it came. 0: at once.
  bool pending = false;
  std::uint32_t born = 0;
  // Its users: the number of the last operation of each stream, by the stream's place; and the last user's index.
  std::vector<std::uint32_t> users;
  std::uint32_t last_user = 0;
};

inline constexpr std::uint64_t kGpuBytes = std::uint64_t{8} << 30;

AddressRange GpuRange();
// Null when fewer bytes are free.
void* AllocateOnGpu(std::uint64_t bytes, bool on_host);
// The allocation that has the address or had it last, and whose 256 bytes are near it; null when there is none.
Allocation* FindAllocation(std::uintptr_t address);
void Release(Allocation& allocation);
std::uint64_t GpuBytesInUse();
// What an address is of, for messages.
std::string DescribeAddress(std::uintptr_t address);

// Memory of `bytes` that is zero, is only taken where it is touched, and stays until the program ends.
void* ReserveMemory(std::uint64_t bytes);
// Memory that ReserveMemory gave becomes zero again.
void ClearReserved(void* memory, std::uint64_t bytes);

}  // namespace trireme::cuda_on_cpu
