// The control groups around this process, as containers and batch systems set them, in both versions of the kernel's
// interface. Limits are files in the folders of these groups.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct ControlGroup {
  std::string folder;  // below root: ".../sys/fs/cgroup/slurm/job_7"
  int version = 2;     // 1 or 2: says what its files are called
};

// The groups that limit `controller` ("memory", "cpu") for this process, from the innermost to the one around all.
// `root` is the folder that holds proc and sys. Empty where the kernel names none.
std::vector<ControlGroup> ControlGroupsOf(const std::string& controller, const std::string& root = "");

}  // namespace trireme
