#include "device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/platform.h"

namespace trireme {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// The number in a file; no limit where there is none ("max"), or no file.
std::int64_t LimitIn(const std::string& path) {
  std::int64_t bytes = 0;
  return std::ifstream(path) >> bytes ? bytes : kNoLimit;
}

// Of a group and those around it, up to the folder that holds all.
std::int64_t LeastAround(const std::string& all, std::string group, const std::string& file) {
  std::int64_t least = LimitIn(all + "/" + file);
  for (; group.size() > 1; group.erase(group.rfind('/'))) {
    least = std::min(least, LimitIn(all + group + "/" + file));
  }
  return least;
}

}  // namespace

std::int64_t HostMemoryBytes(const std::string& root) {
  std::int64_t bytes = sysconf(_SC_PHYS_PAGES) * PageBytes();
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/user.slice/job" of version 2, "5:cpu,memory:/job" of version 1.
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos || line.size() == second + 1 ||
        line[second + 1] != '/') {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      bytes = std::min(bytes, LeastAround(root + "/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      bytes = std::min(bytes, LeastAround(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return bytes;
}

}  // namespace trireme
