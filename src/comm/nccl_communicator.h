// Collectives between GPUs over NCCL, standing on a communicator between the same ranks in host memory: that one hands
// out NCCL's ids, announces messages and ends the world. Messages between connected neighbours go from GPU to GPU
// (device_messages.h), others through host memory. Calls put their work into the device's current stream and return: no
// rank waits for another on the host. Calls are compared in Verify, and among ranks of one process as they are made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/nccl_sharing.h"

namespace trireme {

bool NcclIsBuilt();

class NcclSession;

// One for the ranks of a process, before their communicators, which it must outlive. `abort_world` as NcclSession's.
std::shared_ptr<NcclSession> MakeNcclSession(GpuUse use,
                                             std::function<void(int rank, const std::string& message)> abort_world);
// NcclSession::AbortAll. Nothing in builds without NCCL.
void AbortNccl(NcclSession& session);

// `alone` says what collectives of a group of one do: nothing, or what they do for more, which proves on a machine with
// one GPU that NCCL works there.
enum class NcclAlone : std::uint8_t { kNothing, kEverything };

// A communicator of host's ranks for tensors of `device`, which NCCL must reach and which must outlive it. Results are
// ordered with the device's work. Connects the ranks. Collective. In builds without NCCL this throws the Error "not
// built with NCCL".
std::unique_ptr<Communicator> MakeNcclCommunicator(std::unique_ptr<Communicator> host, Device& device,
                                                   std::shared_ptr<NcclSession> session,
                                                   NcclAlone alone = NcclAlone::kNothing);

}  // namespace trireme
