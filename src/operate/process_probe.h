// What the system tells of a process and its threads without their help, from /proc.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

struct ThreadProbe {
  char state = 0;          // R running, S sleeping, D disk, T stopped, t traced, Z and X dead; 0: there is none
  double cpu_seconds = 0;  // user and system, so far
};

ThreadProbe ProbeThread(int pid, int thread);
std::vector<int> ThreadsOf(int pid);
// Bytes that the process has read and written so far, through any call; 0 when the system does not say.
std::int64_t BytesMoved(int pid);

}  // namespace trireme
