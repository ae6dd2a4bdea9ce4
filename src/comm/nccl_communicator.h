// Collectives between GPUs over NCCL, standing on a communicator between the same ranks in host memory: that one hands
// out NCCL's ids, compares calls before data moves, carries Send and Receive (whose promise never to wait for the
// receiver NCCL cannot keep on one stream) and ends the world.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace trireme {

bool NcclIsBuilt();

// True when NCCL is built and no two ranks of `host` have the same current GPU, which NCCL refuses. Collective.
// `host` has tensors in host memory.
bool NcclCanConnect(Communicator& host);

// A communicator of host's ranks for tensors of `device`, a CUDA device that must outlive it. Results are ordered with
// the device's work. Collective. In builds without NCCL this throws the Error "not built with NCCL".
std::unique_ptr<Communicator> MakeNcclCommunicator(std::unique_ptr<Communicator> host, Device& device);

// Opens NCCL for one rank alone, which a run never does, and makes every collective of it work there: what a machine
// with one GPU can prove of NCCL. `host` has one rank. An Error names what went wrong.
void ProveNcclAlone(std::unique_ptr<Communicator> host, Device& device);

}  // namespace trireme
