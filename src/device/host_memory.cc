#include "device/host_memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/platform.h"
#include "base/shape.h"
#include "device/control_group.h"

namespace trireme {

std::int64_t HostMemoryBytes(const std::string& root) {
  std::int64_t bytes = sysconf(_SC_PHYS_PAGES) * PageBytes();
  for (const ControlGroup& group : ControlGroupsOf("memory", root)) {
    std::ifstream file(group.folder + (group.version == 2 ? "/memory.max" : "/memory.limit_in_bytes"));
    // A file that says "max", or is not there, sets no limit.
    if (std::int64_t limit = 0; file >> limit) {
      bytes = std::min(bytes, limit);
    }
  }
  return bytes;
}

std::int64_t SpareBytesOfRank(std::int64_t planned, std::int64_t ranks) {
  constexpr std::int64_t kPart = 4;
  return std::max<std::int64_t>(HostMemoryBytes() - planned, 0) / kPart / ranks;
}

void* AllocatePages(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 256;
  constexpr std::int64_t kHugePage = 2 << 20;
  const std::int64_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  const std::int64_t rounded = RoundUp(std::max<std::int64_t>(bytes, 1), kAlignment);
  void* memory = nullptr;
  if (posix_memalign(&memory, static_cast<std::size_t>(alignment), static_cast<std::size_t>(rounded)) != 0) {
    return nullptr;
  }
  if (alignment == kHugePage) {
    // Advice: a kernel without huge pages goes on with small ones.
    madvise(memory, static_cast<std::size_t>(rounded), MADV_HUGEPAGE);
  }
  return memory;
}

}  // namespace trireme
