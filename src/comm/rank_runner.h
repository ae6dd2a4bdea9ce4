// Starts ranks and ends them together. An exception on one rank is caught here, printed with the rank's number, aborts
// the world, and is thrown again from Run* on the caller's thread (threads) or ends the process (MPI).
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "device/device.h"

namespace trireme {

// What a rank's function gets: its device and the world of all ranks. Both live until the function returns.
struct RankContext {
  Device& device;
  Communicator& world;
  int threads = 1;  // of a CPU device, as options said or as they were divided; equal on every rank
  int sharing = 1;  // ranks of this process that use the device's GPU, at most
};

// More threads than this are no way to run ranks: a process has limits, and they would take turns on the cores.
inline constexpr int kMostThreadRanks = 4096;

// Runs `body` on `ranks` threads, each with a device made from `options` (local_rank set) and a thread communicator.
// With options.threads = 0 the cores that this process may use are divided among the ranks. Ranks that are not bound to
// cores of their own (options.pin) may use all of these, also where a bound rank starts them.
// Returns when all have ended. When ranks fail, throws an Error "rank R: message" of the first that failed by itself;
// the others end within a second.
void RunThreadRanks(int ranks, const DeviceOptions& options, const std::function<void(RankContext&)>& body);

// True when this process was started by mpirun, srun or the like as one of several (or one) ranks, read from the
// environment without starting MPI.
bool LaunchedByMpi();

// Runs `body` as this process's rank over MPI (with NCCL between GPUs where built), and finalises MPI. On an
// exception: prints "rank R: message" last and ends all processes with exit code 1 within three seconds.
// With options.threads = 0 the cores of a machine are divided among the processes on it whose affinity masks overlap,
// and every rank takes the least that any has. In builds without MPI this throws the Error "not built with MPI".
void RunMpiRank(const DeviceOptions& options, const std::function<void(RankContext&)>& body);

}  // namespace trireme
