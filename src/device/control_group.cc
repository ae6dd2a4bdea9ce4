#include "device/control_group.h"

#include <fstream>

namespace trireme {
namespace {

void AddGroups(const std::string& mount, std::string group, int version, std::vector<ControlGroup>& groups) {
  for (; group.size() > 1; group.erase(group.rfind('/'))) {
    groups.push_back({mount + group, version});
  }
  groups.push_back({mount, version});
}

}  // namespace

std::vector<ControlGroup> ControlGroupsOf(const std::string& controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
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
      AddGroups(root + "/sys/fs/cgroup", group, 2, groups);
    } else if (controllers.find("," + controller + ",") != std::string::npos) {
      AddGroups(root + "/sys/fs/cgroup/" + controller, group, 1, groups);
    }
  }
  return groups;
}

}  // namespace trireme
