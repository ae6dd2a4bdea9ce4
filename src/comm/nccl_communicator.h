// Collectives between GPUs over NCCL, standing on a communicator between the same ranks in host memory: that one hands
// out NCCL's ids, compares calls before data moves, announces messages and ends the world. Messages between connected
// neighbours go from GPU to GPU (device_messages.h), others through host memory. Calls put their work into the device's
// current stream.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace trireme {

bool NcclIsBuilt();

// True when NCCL is built and no two ranks of `host` have the same current GPU, which NCCL refuses. Collective.
// `host` has tensors in host memory.
bool NcclCanConnect(Communicator& host);

// A communicator of host's ranks for tensors of `device`, a CUDA device that must outlive it. Results are ordered with
// the device's work. Collective. In builds without NCCL this throws the Error "not built with NCCL".
//
// `alone` says what collectives of a group of one do: nothing, or what they do for more, which proves on a machine with
// one GPU that NCCL works there.
enum class NcclAlone : std::uint8_t { kNothing, kEverything };
std::unique_ptr<Communicator> MakeNcclCommunicator(std::unique_ptr<Communicator> host, Device& device,
                                                   NcclAlone alone = NcclAlone::kNothing);

}  // namespace trireme
