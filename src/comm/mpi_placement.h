// Threads and cores of processes that MPI started: they compare their affinity masks with those of the processes on the
// same machine.
#pragma once

#include <string>

#include "comm/rank_placement.h"

namespace trireme {

// This process's part; a collective over all processes. Processes whose masks overlap share their cores. A launcher
// that bound the processes of a machine to different masks is left to it: this process is then not bound any further.
// The placement is that of one rank, number 0; its cores suffice where they do for every process.
RankPlacement PlaceProcesses(const HostCores& cores, const DeviceOptions& options);

// The text that rank 0 gives, on every rank; a collective over all processes.
std::string FromFirstProcess(const std::string& text);

}  // namespace trireme
