#include "device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/platform.h"
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

}  // namespace trireme
