// How much memory a process may take on this machine.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The machine's memory in bytes or, where less, what the control groups of this process leave it: a container's or a
// job's limit, beyond which the kernel kills. `root` is the folder that holds proc and sys.
std::int64_t HostMemoryBytes(const std::string& root = "");

}  // namespace trireme
