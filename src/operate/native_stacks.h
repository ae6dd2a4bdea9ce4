// The stacks of a process's threads, for people: by gdb where it is installed and allowed, else what /proc tells of
// each thread (state, system call, kernel stack).
#pragma once

#include <string>

namespace trireme {

// Writes them to `path`. Takes at most `seconds`.
void CollectStacks(int pid, const std::string& path, double seconds);

}  // namespace trireme
