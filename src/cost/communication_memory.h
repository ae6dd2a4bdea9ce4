// Device memory that a rank takes to reach other ranks over NCCL, outside the trainer's arena: NCCL's own buffers and
// those of messages between neighbours (comm/device_messages.h). Nothing of it is there when ranks meet otherwise.
#pragma once

#include <cstdint>

#include "cost/step_cost.h"

namespace trireme {

// NCCL's memory for one communicator on a rank's device. 0.23 GiB were measured for the four of two tensor ranks, more
// than the 21 to 26 MB of a program that makes communicators and nothing else (docs/evidence/shared_gpu.md).
inline constexpr std::int64_t kCommunicatorBytes = std::int64_t{64} << 20;

struct CommunicationMemory {
  int communicators = 0;     // that the rank is a member of; groups of one need none
  std::int64_t buffers = 0;  // bytes that messages are copied to before they go and after they came

  std::int64_t total() const { return communicators * kCommunicatorBytes + buffers; }
};

// Memory of a rank of the stage. Buffers are those of a schedule whose messages do not pile up.
CommunicationMemory CommunicationOf(const StageDescription& stage);

}  // namespace trireme
