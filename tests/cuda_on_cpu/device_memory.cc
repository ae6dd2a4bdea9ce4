#include "cuda_on_cpu/device_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>

#include "cuda_on_cpu/access_check.h"

namespace trireme::cuda_on_cpu {
namespace {

constexpr std::uint64_t kRangeBytes = std::uint64_t{16} << 30;
constexpr std::uint64_t kGranule = 256;

struct Memory {
  AddressRange range{reinterpret_cast<std::uintptr_t>(ReserveMemory(kRangeBytes)), kRangeBytes};
  // The allocation of each granule, as its number + 1.
  std::uint32_t* owners = static_cast<std::uint32_t*>(ReserveMemory(kRangeBytes / kGranule * 4));
  std::deque<Allocation> allocations;
  std::map<std::uint64_t, std::uint64_t> free_ranges{{0, kRangeBytes}};  // offset, bytes
  std::uint64_t next = 0;  // where the search begins: memory is given again as late as possible
  std::uint64_t in_use = 0;
};

Memory& Gpu() {
  static Memory memory;
  return memory;
}

std::uint64_t RoundedUp(std::uint64_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

// The offset of a free range, which is taken.
std::uint64_t TakeRange(Memory& gpu, std::uint64_t bytes) {
  for (const std::uint64_t from : {gpu.next, std::uint64_t{0}}) {
    for (auto it = gpu.free_ranges.lower_bound(from); it != gpu.free_ranges.end(); ++it) {
      if (it->second >= bytes) {
        const auto [offset, available] = *it;
        gpu.free_ranges.erase(it);
        if (available > bytes) {
          gpu.free_ranges[offset + bytes] = available - bytes;
        }
        gpu.next = offset + bytes;
        return offset;
      }
    }
  }
  throw std::runtime_error("the simulated GPU has no range of addresses left");
}

}  // namespace

void* ReserveMemory(std::uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error(fmt::format("cannot reserve {} bytes of addresses", bytes));
  }
  madvise(memory, bytes, MADV_DONTDUMP);
  return memory;
}

void ClearReserved(void* memory, std::uint64_t bytes) {
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 18;
  constexpr std::uint64_t kPage = std::uint64_t{64} << 10;  // a multiple of any machine's
  auto* first = static_cast<char*>(memory);
  char* const last = first + bytes;
  if (bytes >= kLarge) {
    auto* const begin = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(first) + kPage - 1) / kPage * kPage);
    auto* const end = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(last) / kPage * kPage);
    std::memset(first, 0, static_cast<std::size_t>(begin - first));
    madvise(begin, static_cast<std::size_t>(end - begin), MADV_DONTNEED);
    first = end;
  }
  std::memset(first, 0, static_cast<std::size_t>(last - first));
}

AddressRange GpuRange() {
  static const AddressRange range = Gpu().range;
  return range;
}

void* AllocateOnGpu(std::uint64_t bytes, bool on_host) {
  Memory& gpu = Gpu();
  if (!on_host && gpu.in_use + bytes > kGpuBytes) {
    return nullptr;
  }
  const std::uint64_t taken = RoundedUp(bytes) + 2 * kGranule;
  const std::uint64_t offset = TakeRange(gpu, taken);
  Allocation& made = gpu.allocations.emplace_back();
  made.first = gpu.range.first + offset + kGranule;
  made.bytes = bytes;
  made.on_host = on_host;
  for (std::uint64_t i = offset / kGranule; i < (offset + taken) / kGranule; ++i) {
    gpu.owners[i] = static_cast<std::uint32_t>(gpu.allocations.size());
  }
  gpu.in_use += on_host ? 0 : bytes;
  return reinterpret_cast<void*>(gpu.allocations.back().first);
}

Allocation* FindAllocation(std::uintptr_t address) {
  Memory& gpu = Gpu();
  const std::uint32_t owner = gpu.range.Has(address) ? gpu.owners[(address - gpu.range.first) / kGranule] : 0;
  return owner == 0 ? nullptr : &gpu.allocations[owner - 1];
}

void Release(Allocation& allocation) {
  Memory& gpu = Gpu();
  allocation.freed = true;
  gpu.in_use -= allocation.on_host ? 0 : allocation.bytes;
  const std::uint64_t taken = RoundedUp(allocation.bytes) + 2 * kGranule;
  ForgetAccesses(allocation.first, RoundedUp(allocation.bytes));
  ClearReserved(reinterpret_cast<void*>(allocation.first), RoundedUp(allocation.bytes));
  std::uint64_t offset = allocation.first - gpu.range.first - kGranule;
  std::uint64_t bytes = taken;
  const auto after = gpu.free_ranges.find(offset + taken);
  if (after != gpu.free_ranges.end()) {
    bytes += after->second;
    gpu.free_ranges.erase(after);
  }
  const auto next = gpu.free_ranges.lower_bound(offset);
  if (next != gpu.free_ranges.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
    offset = std::prev(next)->first;
    bytes += std::prev(next)->second;
  }
  gpu.free_ranges[offset] = bytes;
}

std::uint64_t GpuBytesInUse() { return Gpu().in_use; }

std::string DescribeAddress(std::uintptr_t address) {
  const Allocation* const near = FindAllocation(address);
  if (near == nullptr) {
    return "far from any allocation";
  }
  const auto distance = static_cast<std::int64_t>(address - near->first);
  return fmt::format("byte {} of an allocation of {} bytes{}", distance, near->bytes,
                     near->freed ? " that was freed" : "");
}

}  // namespace trireme::cuda_on_cpu
